"""Are captions read from Karpathy's and COCO's files, and are broken ones named?"""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.data.caption_files import PUNCTUATION, caption_tokens, read_captions
from lit_attn.data.vocab import tokenize
from lit_attn.errors import UserError


def karpathy_image(number: int, split: str, *captions: str, **more) -> dict:
    sentences = [{"tokens": caption.split(), "raw": caption} for caption in captions]
    name = f"COCO_val2014_{number:012d}.jpg"
    return {"filepath": "val2014", "filename": name, "cocoid": number, "split": split, "sentences": sentences} | more


def write(path, content) -> None:
    path.write_text(json.dumps(content))


def test_karpathy_layout(tmp_path):
    images = [
        karpathy_image(7, "train", "a red bed", "beds"),
        karpathy_image(11, "restval", "a sofa", "", " "),
        {"filename": "x.jpg", "imgid": 5, "split": "test", "sentences": [{"tokens": ["a", "", "bed"]}], "width": 3, "height": 2},
    ]  # fmt: skip
    write(tmp_path / "dataset.json", {"images": images})
    bed, sofa, other = read_captions(tmp_path / "dataset.json")
    assert (bed.file, bed.name) == ("val2014/COCO_val2014_000000000007.jpg", "COCO_val2014_000000000007.jpg")
    assert (bed.stem, bed.picture_id, bed.is_numbered) == ("COCO_val2014_000000000007", 7, True)
    assert bed.captions == (("a", "red", "bed"), ("beds",))
    assert bed.references == ("a red bed", "beds")
    assert sofa.captions == (("a", "sofa"),)
    assert (other.file, other.picture_id, other.is_numbered, other.size) == ("x.jpg", 5, False, (3.0, 2.0))
    assert other.captions == (("a", "", "bed"),)
    assert other.references == ("a bed",)


def test_captions_without_words_are_counted_once(tmp_path, caplog):
    images = [karpathy_image(7, "train", "a", "", ""), karpathy_image(8, "train", "")]
    images[1]["sentences"].append({"tokens": [" "]})
    write(tmp_path / "dataset.json", {"images": images})
    with caplog.at_level("WARNING"):
        first, second = read_captions(tmp_path / "dataset.json")
    assert (first.captions, second.captions) == ((("a",),), ())
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / 'dataset.json'}: 4 captions have no words and are left out."
    ]


def test_words_are_stored_once(tmp_path):
    write(tmp_path / "dataset.json", {"images": [karpathy_image(i, "train", "elephants") for i in range(2)]})
    first, second = read_captions(tmp_path / "dataset.json")
    assert first.captions[0][0] is second.captions[0][0]


def test_coco_layout(tmp_path):
    content = {
        "images": [{"id": 9, "file_name": "9.jpg", "width": 31, "height": 17}, {"id": 5, "file_name": "5.jpg"}],
        "annotations": [
            {"id": 1, "image_id": 5, "caption": "A man's (big) dog, isn't it?"},
            {"id": 2, "image_id": 9, "caption": "Two beds."},
            {"id": 3, "image_id": 5, "caption": "..."},
            {"id": 4, "image_id": 5, "caption": "Dogs\n"},
        ],
    }
    write(tmp_path / "captions_train2017.json", content)
    beds, dogs = read_captions(tmp_path / "captions_train2017.json")
    assert (beds.file, beds.split, beds.picture_id, beds.size) == ("9.jpg", "train", 9, (31.0, 17.0))
    assert beds.captions == (("two", "beds"),)
    assert dogs.references == ("a man 's big dog is n't it", "dogs")


def test_the_name_of_a_coco_file_may_tell_the_split(tmp_path):
    content = {"images": [{"id": 9, "file_name": "9.jpg"}], "annotations": []}
    for name, split in {"captions_val2017.json": "val", "test.json": "test", "my-train.json": "train"}.items():
        write(tmp_path / name, content)
        assert read_captions(tmp_path / name)[0].split == split
    for name in ("evaluation.json", "retrieval.json"):
        write(tmp_path / name, content)
        with pytest.raises(UserError, match=f"{name} does not say which split 9.jpg belongs to"):
            read_captions(tmp_path / name)


def test_real_coco_captions(shared_data):
    pictures = read_captions(shared_data("coco/captions_val2017.json"))
    assert len(pictures) == 5000
    assert sum(len(picture.captions) for picture in pictures) == 25014
    assert {picture.split for picture in pictures} == {"val"}
    assert all(picture.size is not None for picture in pictures)
    motorcycle = next(picture for picture in pictures if picture.picture_id == 179765)
    assert motorcycle.references[0] == "a black honda motorcycle parked in front of a garage"
    words = Counter(word for picture in pictures for caption in picture.captions for word in caption)
    assert words["."] == words[","] == 0
    mini = read_captions(shared_data("coco_mini/captions.json"))
    assert Counter(picture.split for picture in mini) == {"train": 26, "val": 25}
    assert sum(len(picture.captions) for picture in mini) == 255


def test_punctuation_goes_and_words_stay():
    assert caption_tokens('A "stop" sign: red & white, 50% (old)...') == [
        "a", "stop", "sign", "red", "&", "white", "50", "%", "old",
    ]  # fmt: skip


words = st.sampled_from(
    ["a", "Dog", "cannot", "gonna", "2", "man's", "x-ray", "no.", "it", "b,c", "5,6", "a,", "d .", "!", "''"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(words, max_size=7), st.sampled_from(["", ".", " .", "!", "..", "\n"]))
def test_the_short_way_gives_the_same_tokens(chosen, end):
    caption = " ".join(chosen) + end
    assert caption_tokens(caption) == [token for token in tokenize(caption) if token not in PUNCTUATION]


def test_the_short_way_gives_the_same_tokens_of_real_captions(shared_data):
    for annotation in json.loads(shared_data("coco/captions_val2017.json").read_text())["annotations"][::23]:
        caption = annotation["caption"]
        assert caption_tokens(caption) == [token for token in tokenize(caption) if token not in PUNCTUATION]


GOOD = karpathy_image(7, "train", "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "x.json is no complete JSON file"),
        ("[]", "x.json is no file of captions: expected a JSON object with a list 'images'"),
        ('{"images": 5}', "x.json is no file of captions"),
        (json.dumps({"images": [{**GOOD, "split": "trian"}]}), "split 'trian'. Did you mean 'train'"),
        (json.dumps({"images": [{"split": "train"}]}), r"not in Karpathy's layout: KeyError\('sentences'\)"),
        (json.dumps({"images": [{**GOOD, "sentences": [{"raw": "a"}]}]}), r"Karpathy's layout: KeyError\('tokens'\)"),
        (json.dumps({"images": [{**GOOD, "sentences": [{"tokens": [5]}]}]}), "Karpathy's layout: TypeError"),
        (json.dumps({"images": [], "annotations": [{"image_id": 5}]}), r"not in COCO's layout: KeyError\('caption'\)"),
        (json.dumps({"images": [], "annotations": [{"image_id": 5, "caption": "a"}]}), "does not list, such as 5"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read_captions(tmp_path / "x.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="Cannot read .*absent.json: No such file"):
        read_captions(tmp_path / "absent.json")
