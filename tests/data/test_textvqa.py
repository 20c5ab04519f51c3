"""Do public files of TextVQA, and files of the user's own, become the batches that M4C is promised?"""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from lit_attn.data.answer_words import PAD, SPECIALS, START, AnswerWords
from lit_attn.data.question_files import read_questions
from lit_attn.data.regions import Regions, write_npz
from lit_attn.data.textvqa import OwnQuestions, TextVqa
from lit_attn.data.vocab import SPECIALS as QUESTION_SPECIALS
from lit_attn.data.vocab import Vocabulary
from lit_attn.errors import UserError
from lit_attn.ops.phoc import phoc
from tests.reference.reading_files import (
    DIM,
    mmf_entry,
    some_boxes,
    some_features,
    study_entry,
    write_imdb,
    write_lmdb,
    write_ocr,
)

QUESTIONS = [
    (10, "aa", "what brand is the phone?", ["nokia"] * 9 + ["toshiba"], ["NOKIA", "Joe's", "5"], 3),
    (11, "aa", "who owns it?", ["joe"] * 3, ["NOKIA", "Joe's", "5"], 3),
    (12, "bb", "what does the sign say?", ["stop"], [], 0),
    (13, "cc", "what colour?", [], ["red", "a", "b", "c", "d", "e", "f"], 7),
]
PICTURES = {picture: (tokens, objects) for _, picture, _, _, tokens, objects in QUESTIONS}


@pytest.fixture
def mmf(tmp_path):
    """Questions in MMF's layout, with features of objects and tokens."""
    entries = [mmf_entry(*question) for question in QUESTIONS]
    write_imdb(tmp_path / "imdb_train_ocr_en.npy", entries)
    write_lmdb(
        tmp_path / "obj.lmdb",
        {f"train/{picture}": {"features": some_features(picture, n)} for picture, (_, n) in PICTURES.items()},
    )
    write_lmdb(
        tmp_path / "ocr.lmdb",
        {f"train/{picture}": {"features": some_features(f"{picture} ocr", 2)} for picture in ("aa", "cc")},
    )
    AnswerWords((*SPECIALS, "nokia", "stop")).write(tmp_path / "answers.txt")
    return tmp_path


def opened(folder, **options) -> TextVqa:
    settings = {
        "regions": str(folder / "obj.lmdb"),
        "train": str(folder / "imdb_train_ocr_en.npy"),
        "val": str(folder / "imdb_train_ocr_en.npy"),
        "answer_words": str(folder / "answers.txt"),
        "min_count": 1,
    }
    return TextVqa(**(settings | options))


def only(data: TextVqa, stage: str = "val"):
    loader = {"val": data.val_dataloader, "test": data.test_dataloader, "predict": data.predict_dataloader}[stage]
    (batch,) = loader()
    return batch


def test_mmf_files_become_a_batch(mmf):
    data = opened(mmf, ocr_regions=str(mmf / "ocr.lmdb"))
    batch = only(data)
    assert batch.question_id.tolist() == [10, 11, 12, 13]
    assert batch.image_id.tolist() == [0, 0, 1, 2]
    assert batch.picture_name == ("aa", "aa", "bb", "cc")
    assert batch.sample_id == ("10", "11", "12", "13")
    assert batch.words[0] == ("<start>", "what", "brand", "is", "the", "phone", "?", "<end>")
    assert batch.ocr_words[0] == ("nokia", "joe 's", "5")
    assert batch.region_mask.sum(1).tolist() == [3, 3, 0, 7]
    assert batch.ocr_mask.sum(1).tolist() == [3, 3, 0, 7]
    np.testing.assert_array_equal(batch.regions[0, :3], some_features("aa", 3))
    np.testing.assert_array_equal(batch.boxes[3], some_boxes("cc", 7))
    np.testing.assert_array_equal(batch.ocr_boxes[0, :3], some_boxes("aa ocr", 3))
    np.testing.assert_array_equal(batch.ocr_phoc[3], phoc(batch.ocr_words[3]))
    np.testing.assert_array_equal(batch.ocr_vectors[3], data.word_vectors(batch.ocr_words[3]))
    assert batch.previous[0, :3].tolist() in ([START, 4, PAD], [START, 6, PAD])
    assert batch.targets[0, 0, [4, 6]].tolist() == [1, 1]
    assert batch.step_mask.sum(1).tolist() == [2, 0, 2, 0]
    assert batch.targets.shape == (4, 12, 6 + 7)
    assert batch.region_causes is None
    assert (data.num_answers, data.region_dim, data.word_vector_dim) == (6, DIM, 300)


def test_tokens_without_features_of_their_own_have_zeros(mmf):
    few = only(opened(mmf, ocr_regions=str(mmf / "ocr.lmdb"))).ocr_regions
    np.testing.assert_array_equal(few[0, :2], some_features("aa ocr", 2))
    assert not few[0, 2].any()
    none = only(opened(mmf)).ocr_regions
    assert none.shape == (4, 7, DIM)
    assert not none.any()


def test_limits_cut_questions_objects_and_tokens(mmf):
    batch = only(opened(mmf, max_question_tokens=4, max_objects=2, max_ocr=1, max_steps=1))
    assert batch.words[0] == ("<start>", "what", "brand", "<end>")
    assert batch.region_mask.sum(1).tolist() == [2, 2, 0, 2]
    assert batch.ocr_words == (("nokia",), ("nokia",), (), ("red",))
    assert batch.previous.tolist() == [[START], [PAD], [START], [PAD]]


def test_boxes_are_found_beside_features_and_filled_with_zeros(tmp_path):
    write_imdb(tmp_path / "x.npy", [study_entry(3, "aa", "what?", ["tea"] * 10, ["TEA", "cup", "x"])])
    size = np.array([200, 100, 200, 100], np.float32)

    def entry(picture: str, count: int) -> dict:
        boxes = some_boxes(picture, count) * size
        return {"features": some_features(picture, count), "boxes": boxes, "image_h": 100, "image_w": 200}

    write_lmdb(tmp_path / "obj", {"aa": entry("aa", 5)}, keys=True)
    write_lmdb(tmp_path / "ocr", {"aa": entry("aa ocr", 2)}, keys=True)
    data = TextVqa(
        str(tmp_path / "obj"), str(tmp_path / "x.npy"), str(tmp_path / "x.npy"), ocr_regions=str(tmp_path / "ocr")
    )
    batch = only(data)
    np.testing.assert_allclose(batch.boxes[0], some_boxes("aa", 5), atol=1e-6)
    np.testing.assert_allclose(batch.ocr_boxes[0, :2], some_boxes("aa ocr", 2), atol=1e-6)
    assert not batch.ocr_boxes[0, 2].any()
    assert batch.ocr_mask.tolist() == [[True] * 3]
    without = TextVqa(str(tmp_path / "obj"), str(tmp_path / "x.npy"), str(tmp_path / "x.npy"))
    with pytest.raises(
        UserError, match="OCR tokens of the picture aa have no boxes. Name their features with data.ocr_regions"
    ):
        only(without)


def test_samples_do_not_depend_on_workers(mmf):
    one = list(opened(mmf, eval_batch_size=2).val_dataloader())
    other = list(opened(mmf, eval_batch_size=2, num_workers=2).val_dataloader())
    for here, there in zip(one, other, strict=True):
        assert here.sample_id == there.sample_id
        for name in ("regions", "targets", "previous", "ocr_vectors", "tokens"):
            assert torch.equal(getattr(here, name), getattr(there, name)), name


def test_answer_words_of_training_where_no_list_is_named(mmf):
    data = opened(mmf, answer_words=None, num_answer_words=2)
    assert data.answer_words.words == (*SPECIALS, "nokia", "joe")
    rare = opened(mmf, min_count=2)
    assert set(rare.vocabulary.vocabulary.words) == {*QUESTION_SPECIALS, "what", "the", "?"}


def test_word_pieces(mmf):
    (mmf / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "what", "phone", "?"]))
    batch = only(opened(mmf, tokenizer=str(mmf)))
    assert batch.words[0] == ("[CLS]", "what", "[UNK]", "[UNK]", "[UNK]", "phone", "?", "[SEP]")
    assert batch.tokens[0, :2].tolist() == [2, 5]


def test_an_empty_question_is_named(mmf):
    write_imdb(mmf / "imdb_train_ocr_en.npy", [mmf_entry(17, "aa", " ", ["tea"], [], 3)])
    with pytest.raises(UserError, match="Question 17 is empty: ' '"):
        only(opened(mmf))


def test_pictures_without_features_are_named(mmf):
    write_imdb(mmf / "more.npy", [mmf_entry(1, "aa", "what?", [], [], 3), mmf_entry(2, "zz", "what?", [], [], 3)])
    with pytest.raises(
        UserError, match=r"1 of 2 pictures have no features, such as zz. .*obj.lmdb has nothing for .*'zz'"
    ):
        opened(mmf, val=str(mmf / "more.npy")).dataset("val")
    write_imdb(mmf / "bb.npy", [mmf_entry(2, "bb", "what?", [], ["x"], 0)])
    with pytest.raises(UserError, match="ocr.lmdb has nothing for the picture .*'bb'"):
        only(opened(mmf, val=str(mmf / "bb.npy"), ocr_regions=str(mmf / "ocr.lmdb")))


def test_objects_without_boxes_and_of_other_width_are_named(mmf):
    entry = mmf_entry(2, "aa", "what?", [], [], 3)
    del entry["obj_normalized_boxes"]
    write_imdb(mmf / "x.npy", [entry])
    with pytest.raises(UserError, match="objects of the picture aa have no boxes, neither .* nor with question 2"):
        only(opened(mmf, val=str(mmf / "x.npy")))
    write_lmdb(
        mmf / "odd.lmdb", {"train/aa": {"features": some_features("aa", 3)}, "train/b": {"features": np.ones((2, 5))}}
    )
    write_imdb(mmf / "x.npy", [mmf_entry(2, "b", "what?", [], [], 3)])
    with pytest.raises(UserError, match="regions of b have features \\(2, 5\\); others are 11 wide"):
        only(opened(mmf, val=str(mmf / "x.npy"), regions=str(mmf / "odd.lmdb")))


def test_a_stage_without_a_file_is_named(mmf):
    for stage, split in (("test", "test"), ("predict", "test")):
        with pytest.raises(UserError, match=f"data.{split} is not set. Name the file with the questions for {stage}"):
            opened(mmf).dataset(stage)


def npz_of(folder, pictures) -> str:
    folder.mkdir()
    for picture in pictures:
        boxes = some_boxes(picture, 5) * np.array([200, 100, 200, 100], np.float32)
        write_npz(Regions(picture, some_features(picture, 5), boxes, 200.0, 100.0), folder / f"{picture}.npz")
    return str(folder)


def test_the_real_file_with_tokens_and_regions_of_our_own(shared_data, tmp_path):
    files = {split: shared_data(f"textvqa/TextVQA_0.5.1_{split}_sample.json") for split in ("train", "val")}
    pictures = {entry["image_id"] for file in files.values() for entry in json.loads(file.read_text())["data"]}
    write_ocr(tmp_path / "ocr.jsonl", {picture: [("Nokia", (20, 10, 100, 50))] for picture in pictures})
    data = TextVqa(
        npz_of(tmp_path / "regions", pictures),
        str(files["train"]),
        str(files["val"]),
        ocr=str(tmp_path),
        num_answer_words=97,
        min_count=1,
        eval_batch_size=500,
    )
    batch = only(data)
    entries = json.loads(files["val"].read_text())["data"]
    assert len(batch) == len(entries)
    assert batch.answers == tuple(tuple(entry["answers"]) for entry in entries)
    assert batch.question_id.tolist() == [entry["question_id"] for entry in entries]
    assert data.num_answers == 101
    first = data.dataset("train")[0]
    assert first.words[1:-1] == ("what", "is", "the", "brand", "of", "phone", "?")
    nokia = data.answer_words.ids["nokia"]
    assert first.lesson.scores[0, nokia] == first.lesson.scores[0, 101] == 1.0
    with pytest.raises(
        UserError, match="Question .* comes without OCR tokens. Read the pictures with `lit-attn extract"
    ):
        only(TextVqa(str(tmp_path / "regions"), str(files["train"]), str(files["val"])))


def labelled(folder, pictures, labels, **more) -> str:
    """Regions that a detector has called `labels`, or numbered."""
    folder.mkdir(exist_ok=True)
    for picture in pictures:
        boxes = some_boxes(picture, len(labels)) * np.array([200, 100, 200, 100], np.float32)
        named = {"object_names": tuple(labels)} if isinstance(labels[0], str) else {"objects": np.array(labels)}
        regions = Regions(picture, some_features(picture, len(labels)), boxes, 200.0, 100.0, **named, **more)
        write_npz(regions, folder / f"{picture}.npz")
    return str(folder)


def test_batches_say_what_regions_are_called(mmf):
    regions = labelled(mmf / "regions", PICTURES, ("phone", "sign", "cup"))
    assert only(opened(mmf, regions=regions, max_objects=2)).region_labels == (("phone", "sign"),) * 4
    assert only(opened(mmf)).region_labels == ((),) * 4


def test_label_ids_are_looked_up_in_npz_and_lmdb(mmf):
    (mmf / "objects.txt").write_text("phone\nsign,poster\n")
    (mmf / "attributes.txt").write_text("red\nblue\n")
    names = {"object_names": str(mmf / "objects.txt"), "attribute_names": str(mmf / "attributes.txt")}
    sure = {"attributes": np.array([1, 0]), "attributes_conf": np.array([0.9, 0.3], np.float32)}
    regions = labelled(mmf / "regions", PICTURES, (1, 0), **sure)
    assert only(opened(mmf, regions=regions, **names)).region_labels[0] == ("blue sign", "red phone")
    cautious = opened(mmf, regions=regions, attribute_threshold=0.5, **names)
    assert only(cautious).region_labels[0] == ("blue sign", "phone")
    entries = {
        f"train/{picture}": {"features": some_features(picture, n), "objects": np.arange(n)}
        for picture, (_, n) in PICTURES.items()
    }
    write_lmdb(mmf / "numbered.lmdb", entries)
    batch = only(opened(mmf, regions=str(mmf / "numbered.lmdb"), **names))
    assert batch.region_labels[1:3] == (("phone", "sign", "object 2"), ())


@pytest.fixture
def own(tmp_path):
    """Settings for questions of the user's own."""
    write_ocr(tmp_path / "ocr.jsonl", {"room.jpg": [("OPEN", (20, 10, 100, 50))], "hall": []})
    AnswerWords((*SPECIALS, "red")).write(tmp_path / "answers.txt")
    Vocabulary((*QUESTION_SPECIALS, "what", "?")).write(tmp_path / "words.json")
    Image.new("RGB", (200, 100)).save(tmp_path / "room.jpg")
    (tmp_path / "q.csv").write_text('picture,question\nroom.jpg,"What, then?"\nhall,what?\n')
    return {
        "questions": str(tmp_path / "q.csv"),
        "regions": npz_of(tmp_path / "regions", ("room", "hall")),
        "ocr": str(tmp_path),
        "answer_words": str(tmp_path / "answers.txt"),
        "vocabulary": str(tmp_path / "words.json"),
        "images": str(tmp_path),
    }


def test_own_questions_become_a_batch_without_answers(own, tmp_path):
    data = OwnQuestions(**own)
    batch = only(data, "predict")
    assert batch.answers == ((), ())
    assert batch.words[0] == ("<start>", "what", ",", "then", "?", "<end>")
    assert batch.tokens[0].tolist() == [1, 4, 3, 3, 5, 2]
    assert batch.ocr_words == (("open",), ())
    assert not batch.step_mask.any()
    assert data.show(0, "predict").size == (200, 100)
    assert data.show(1, "predict") is None
    (tmp_path / "q.jsonl").write_text('{"picture": "hall", "question": "what?"}\n\n')
    assert len(only(OwnQuestions(**(own | {"questions": str(tmp_path / "q.jsonl")})), "predict")) == 1


def test_own_questions_serve_predict_only(own):
    with pytest.raises(UserError, match="data.questions .*q.csv has questions without answers, which val needs"):
        OwnQuestions(**own).val_dataloader()
    with pytest.raises(UserError, match="data.answer_words is not set"):
        only(OwnQuestions(**(own | {"answer_words": None})), "predict")
    with pytest.raises(UserError, match="Neither data.tokenizer nor data.vocabulary is set"):
        only(OwnQuestions(**(own | {"vocabulary": None})), "predict")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.csv", "pictures,question\na,b\n", "q.csv, line 2 has no 'picture'. Did you mean 'pictures'\\?"),
        ("q.csv", "picture,question\na,\n", "q.csv, line 2 has no 'question'"),
        ("q.csv", "picture,question\n", "q.csv asks no question"),
        ("q.jsonl", '{"picture": "a"}', "q.jsonl, line 1 has no 'question'"),
        ("q.jsonl", "\n{", "q.jsonl, line 2 is no JSON"),
        ("q.jsonl", "3", "q.jsonl, line 1 is no JSON object"),
        (
            "q.jsonl",
            '{"picture": "a", "question": "b", "answers": "c"}',
            "line 1: 'answers' is the text 'c'; expected a list",
        ),
        ("q.json", "{}", "q.json is no TextVQA file.*KeyError\\('data'\\)"),
        ("q.json", '{"data": [{"question": "a"}]}', "q.json is no TextVQA file"),
        ("q.json", "{", "q.json is no TextVQA file"),
        ("q.txt", "what?", "Questions come from .npy, .json, .jsonl, .csv files; .*q.txt is none"),
    ],
)
def test_files_that_are_no_questions_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_questions(tmp_path / name)


def test_questions_that_cannot_be_read_are_named(tmp_path):
    for suffix in ("json", "jsonl", "csv"):
        with pytest.raises(UserError, match=f"Cannot read the questions .*absent.{suffix}: No such file"):
            read_questions(tmp_path / f"absent.{suffix}")
        (tmp_path / f"q.{suffix}").write_bytes(b"\xff\xfe\x00 picture")
        with pytest.raises(UserError, match=f"The questions .*q.{suffix} are not UTF-8"):
            read_questions(tmp_path / f"q.{suffix}")
