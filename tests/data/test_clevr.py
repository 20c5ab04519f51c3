"""Is CLEVR read as it is distributed: words, answers, kinds, grids, and nothing by mistake?"""

import json
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from lit_attn.data.clevr import Clevr, ClevrVocabulary
from lit_attn.data.clevr_questions import question_kind, question_words, read_questions
from lit_attn.data.questions import collate
from lit_attn.errors import UserError
from lit_attn.types import QUESTION_KINDS

GRID = (7, 3, 2)


def node(function: str, *inputs: int) -> dict:
    return {"function": function, "inputs": list(inputs), "value_inputs": []}


def entry(text: str, image: int, answer: str | None, last: str | None = "exist", split: str = "train", **more) -> dict:
    made = {"image_index": image, "image_filename": f"CLEVR_{split}_{image:06}.png", "question": text, "split": split}
    if answer is not None:
        made |= {"answer": answer, "program": [node("scene"), node(last, 0)]}
    return made | more


TRAIN = [
    entry("Is there a cube?", 1, "yes"),
    entry("What color is the cube; is it red?", 0, "red", "query_color"),
    entry("How many balls (or cubes)?", 1, "3", "count"),
    entry("Is it big/small?", 1, "no", "equal_size"),
    entry("More balls?", 0, "no", "greater_than"),
]
VAL = [entry("Is there a dog?", 2, "maybe", split="val"), entry("More cubes?", 0, "yes", split="val")]
TEST = [
    entry("Red?", 1, None, split="test", question_index=7),
    entry("A ball?", 1, None, split="test", question_index=9),
]


def write_questions(path: Path, questions: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"info": {}, "questions": questions}))
    return path


def grids(split: str, count: int = 3) -> np.ndarray:
    return np.random.default_rng(len(split)).normal(size=(count, *GRID)).astype(np.float32)


@pytest.fixture
def root(tmp_path) -> Path:
    """As distributed, with features beside it."""
    for split, questions in (("train", TRAIN), ("val", VAL), ("test", TEST)):
        write_questions(tmp_path / "CLEVR_v1.0" / "questions" / f"CLEVR_{split}_questions.json", questions)
        with h5py.File(tmp_path / f"{split}.h5", "w") as file:
            file["features"] = grids(split)
    return tmp_path


def clevr(folder: Path, **options) -> Clevr:
    return Clevr(**({"features": str(folder / "{split}.h5"), "root": str(folder), "num_workers": 0} | options))


def test_words_are_those_of_the_public_preprocessing():
    words = question_words("Is the BIG (red) cube/ball, left; or: not.?!\\ ")
    assert " ".join(words) == "is the big red cubeball , left ; or : not ."


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("exist", "exist"),
        ("count", "count"),
        *((f"query_{a}", "query_attribute") for a in ("color", "shape", "size", "material")),
        *((f"equal_{a}", "compare_attribute") for a in ("color", "shape", "size", "material")),
        ("same_color", "compare_attribute"),
        ("equal_integer", "compare_integer"),
        ("less_than", "compare_integer"),
        ("greater_than", "compare_integer"),
    ],
)
def test_the_last_function_tells_the_kind(function, kind):
    assert kind in QUESTION_KINDS
    assert question_kind([node("exist"), node(function)]) == kind
    assert question_kind([{"type": "scene", "inputs": []}, {"type": function, "inputs": [0]}]) == kind
    assert question_kind(["scene", function]) == kind


def test_samples_hold_what_the_files_say(root):
    data = clevr(root)
    assert data.answers == ("3", "no", "red", "yes")
    assert data.grid_dim == 7
    assert len(data.dataset("train")) == 5
    words = data.vocabulary
    assert words.words[:4] == ("<pad>", "<unk>", "<start>", "<end>")
    assert list(words.words[4:]) == sorted({w for q in TRAIN for w in question_words(q["question"])})
    picture, (asked,) = data.dataset("train")[2]
    np.testing.assert_array_equal(picture.grid, grids("train")[1])
    assert (picture.image_id, picture.name) == (1, "CLEVR_train_000001")
    assert asked.words == ("how", "many", "balls", "or", "cubes")
    assert tuple(words.words[i] for i in asked.ids) == asked.words
    assert (asked.question_id, asked.sample_id, asked.kind, asked.answer) == (2, "train-2", "count", 0)
    batch = collate([data.dataset("train")[i] for i in range(5)])
    assert batch.kind == ("exist", "query_attribute", "count", "compare_attribute", "compare_integer")
    assert batch.answer.tolist() == [3, 2, 0, 1, 1]
    np.testing.assert_array_equal(batch.grid, grids("train")[[1, 0, 1, 1, 0]])


def test_words_and_answers_that_training_never_saw(root):
    (_, (dog,)), (_, (cubes,)) = clevr(root).dataset("val")
    assert dog.ids[-1] == 1, "unknown"
    assert dog.answer == 4, "one more than any model can answer, so that it counts as wrong"
    assert 1 not in cubes.ids
    assert cubes.answer == 3


def test_test_takes_val_and_predict_takes_questions_without_answers(root):
    data = clevr(root)
    assert [asked.sample_id for _, (asked,) in data.dataset("test")] == ["val-0", "val-1"]
    asked = [asked for _, (asked,) in data.dataset("predict")]
    assert [(a.question_id, a.sample_id, a.answer, a.kind) for a in asked] == [
        (7, "test-7", -1, ""),
        (9, "test-9", -1, ""),
    ]
    with pytest.raises(UserError, match="CLEVR_test_questions.json has no answers to compare with.*use predict"):
        clevr(root, test_split="test").dataset("test")
    (root / "CLEVR_v1.0" / "questions" / "CLEVR_test_questions.json").unlink()
    assert len(clevr(root).dataset("predict")) == 2, "those of val"


@pytest.mark.parametrize(("each", "sizes"), [(2, [2, 1, 2]), (3, [3, 2]), (10, [3, 2])])
def test_questions_of_a_picture_may_come_together(root, each, sizes):
    samples = list(clevr(root, questions_per_sample=each).dataset("train"))
    assert [len(asked) for _, asked in samples] == sizes
    for picture, asked in samples:
        np.testing.assert_array_equal(picture.grid, grids("train")[picture.image_id])
        assert {TRAIN[a.question_id]["image_index"] for a in asked} == {picture.image_id}
    assert sorted(a.question_id for _, asked in samples for a in asked) == list(range(5))


def test_the_loader_shuffles_and_workers_read(root):
    data = clevr(root, batch_size=2, num_workers=2)
    seen = [i for batch in data.train_dataloader() for i in batch.question_id.tolist()]
    assert len(set(seen)) == 4


def test_a_vocabulary_comes_back(root, tmp_path):
    built = clevr(root).words_and_answers
    built.write(tmp_path / "own.json")
    assert ClevrVocabulary.read(tmp_path / "own.json") == built
    data = clevr(root, vocabulary=str(tmp_path / "own.json"))
    (root / "CLEVR_v1.0" / "questions" / "CLEVR_train_questions.json").unlink()
    assert data.answers == built.answers
    assert data.grid_dim == 7
    assert data.vocabulary.fingerprint == built.words.fingerprint


def test_public_vocabularies_are_read_in_their_order(tmp_path):
    marks = {"<NULL>": 0, "<START>": 1, "<END>": 2, "<UNK>": 3}
    public = {"question_token_to_idx": marks | {"what": 5, "is": 4}, "answer_token_to_idx": marks | {"yes": 5, "no": 4}}
    (tmp_path / "vocab.json").write_text(json.dumps(public))
    read = ClevrVocabulary.read(tmp_path / "vocab.json")
    assert read.words.words == ("<pad>", "<unk>", "<start>", "<end>", "is", "what")
    assert read.answers == ("no", "yes")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "own.json is no vocabulary: expected JSON with words and answers, or with question_token_to_idx"),
        ('{"words": []}', "own.json: The words of questions open with <pad>"),
        ('{"question_token_to_idx": {}}', "is no vocabulary.*KeyError"),
        ('{"words": ["<pad>", "<unk>", "<start>", "<end>"], "answers": []}', "own.json: A vocabulary needs answers"),
        ('{"words": ["<pad>", "<unk>", "<start>", "<end>"], "answers": ["a", "a"]}', "lists the answer 'a' twice"),
        ('{"words": ["<pad>", "<unk>", "<start>", "<end>", "a", "a"], "answers": ["a"]}', "lists the word 'a' twice"),
    ],
)
def test_broken_vocabularies_are_named(tmp_path, content, says):
    (tmp_path / "own.json").write_text(content)
    with pytest.raises(UserError, match=says):
        ClevrVocabulary.read(tmp_path / "own.json")


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        ([], "has no list of 'questions', or an empty one"),
        ([TRAIN[0], entry("?!", 0, "yes")], r"q\.json: question 1: it has no words, only '\?!'"),
        ([entry("Red?", 0, "yes", "filter_size")], "question 0: its program ends in an unknown function 'filter_size'"),
        ([entry("Red?", 0, "yes", "query_colour")], "unknown function 'query_colour'. Did you mean 'query_color'"),
        ([entry("Red?", 0, "yes", program=[])], "question 0: its program is empty"),
        ([entry("Red?", 0, "yes", program=[{"inputs": []}])], "unknown function None"),
        ([entry("Red?", 0, "yes", image_index="0")], "its 'image_index' is '0'; expected a number from 0"),
        ([entry("Red?", 0, "yes", question_index=-1)], "its 'question_index' is -1"),
        ([entry("Red?", 0, "yes", question_index=3)] * 2, "has two questions with the question_index 3"),
        ([entry(None, 0, "yes")], "its 'question' is None; expected text"),
        (["Red?"], "question 0: it is 'Red\\?'; expected a mapping"),
    ],
)
def test_broken_questions_are_named(tmp_path, questions, says):
    path = write_questions(tmp_path / "q.json", questions)
    with pytest.raises(UserError, match=says):
        read_questions(path, "train")


def test_missing_and_cut_files_are_named(tmp_path, root):
    (tmp_path / "cut.json").write_text('{"questions": [')
    with pytest.raises(UserError, match=r"cut\.json is no complete JSON"):
        read_questions(tmp_path / "cut.json", "train")
    with pytest.raises(UserError, match=r"Cannot read the questions .*none\.json: No such file"):
        clevr(root, train_questions="none.json").dataset("train")
    with pytest.raises(
        UserError, match=r"Where are the train questions\? Give data.root, or data.train_questions FILE"
    ):
        clevr(root, root=None).dataset("train")
    with pytest.raises(UserError, match=r"data.root '.*nowhere' is not a folder"):
        clevr(root, root=str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="Cannot read the vocabulary none.json: No such file"):
        _ = clevr(root, vocabulary="none.json").vocabulary


def test_mistakes_in_options_and_features_are_told(root, tmp_path):
    with pytest.raises(UserError, match="data.questions_per_sample must be at least 1, got 0"):
        clevr(root, questions_per_sample=0)
    with pytest.raises(UserError, match="data.test_split is 'vall'. Did you mean 'val'"):
        clevr(root, test_split="vall")
    with pytest.raises(UserError, match=r"There is no file of grids .*train\.hdf5"):
        clevr(root, features=str(root / "{split}.hdf5")).dataset("train")
    write_questions(tmp_path / "q.json", [*TRAIN, entry("Red?", 5, "yes")])
    with pytest.raises(UserError, match=r"train\.h5 has 3 rows, none for image_index 5 \(CLEVR_train_000005\)"):
        clevr(root, train_questions=str(tmp_path / "q.json")).dataset("train")
    write_questions(tmp_path / "q.json", [*TRAIN, entry("Red?", 0, None)])
    with pytest.raises(UserError, match=r"q\.json has no answer to 1 of 6 questions; training needs all"):
        clevr(root, train_questions=str(tmp_path / "q.json")).dataset("train")
    write_questions(tmp_path / "q.json", TEST)
    with pytest.raises(UserError, match=r"q\.json has no answers to train on"):
        _ = clevr(root, train_questions=str(tmp_path / "q.json")).answers


def test_one_file_without_names_serves_one_split_only(root):
    data = clevr(root, features=str(root / "train.h5"))
    data.dataset("train")
    with pytest.raises(UserError, match=r"image_index 0 is both CLEVR_val_000000 and CLEVR_train_000000.*\{split\}"):
        data.dataset("val")
    with h5py.File(root / "named.h5", "w") as file:
        file["features"] = grids("train")
        names = ["CLEVR_train_000000", "CLEVR_train_000001", "CLEVR_val_000002"]
        file.create_dataset("names", data=np.array(names, object), dtype=h5py.string_dtype())
    data = clevr(root, features=str(root / "named.h5"))
    data.dataset("train")
    with pytest.raises(UserError, match="has no grid of the picture 'CLEVR_val_000000'"):
        data.dataset("val")


def test_pictures_are_shown(root):
    assert clevr(root).show(1, "train") is None
    folder = root / "CLEVR_v1.0" / "images" / "train"
    folder.mkdir(parents=True)
    Image.new("RGB", (5, 3), (10, 20, 30)).save(folder / "CLEVR_train_000001.png")
    for options in ({}, {"images": str(folder)}):
        shown = clevr(root, **options).show(1, "train")
        assert (shown.size, shown.getpixel((0, 0))) == ((5, 3), (10, 20, 30))
    assert clevr(root).show(0, "train") is None


def test_real_questions(shared_data):
    made = read_questions(shared_data("clevr/questions.json"), "train")
    assert Counter(question.kind for question in made) == {
        "exist": 84,
        "count": 138,
        "query_attribute": 220,
        "compare_attribute": 109,
        "compare_integer": 49,
    }
    original = read_questions(shared_data("clevr/CLEVR_train_questions_first100.json"), "train")
    assert Counter(question.kind for question in original) == {
        "exist": 13,
        "count": 22,
        "query_attribute": 39,
        "compare_attribute": 15,
        "compare_integer": 11,
    }
    assert " ".join(original[0].words) == "are there more big green things than large purple shiny cubes"
    assert (original[0].image_file, original[0].answer) == ("train/CLEVR_train_000000.png", "yes")
    marks = set("".join(w for q in made + original for w in q.words)) & set("?!\\/()")
    assert not marks
    built = ClevrVocabulary.build(made)
    assert len(built.answers) <= 28
    assert {"yes", "no", "0", "cube", "cylinder", "rubber", "small", "cyan"} <= set(built.answers)
