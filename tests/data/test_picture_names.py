"""Is a picture found under every spelling of its name, and never under another picture's?"""

import pytest

from lit_attn.data.picture_names import PictureNames


@pytest.mark.parametrize(
    ("listed", "keys", "found"),
    [
        (["132417", "7"], ("132417",), "132417"),
        (["COCO_train2014_000000132417", "x"], ("132417",), "COCO_train2014_000000132417"),
        (["000000132417.jpg"], ("132417",), "000000132417.jpg"),
        (["132417"], ("COCO_train2014_000000132417",), "132417"),
        (["132417"], ("COCO_val2014_000000132417.jpg",), "132417"),
        (["kitchen_1", "1"], ("1",), "1"),
        (["kitchen_1", "1"], ("kitchen_1", "1"), "kitchen_1"),
        (["beach.JPG", "x.png"], ("beach",), "beach.JPG"),
        (["a.jpg", "a"], ("a",), "a"),
        (["COCO_train2014_000000132417"], ("beach", "132417"), "COCO_train2014_000000132417"),
        (["000000132417.jpg"], ("COCO_train2014_000000132417", "132417"), "000000132417.jpg"),
        (["ADE_train_00000530"], ("ADE_val_00000530",), None),
        (["ADE_val_00000530.jpg"], ("ADE_train_00000530", "530"), None),
        (["ADE_val_00000530", "ADE_train_00000530.jpg"], ("ADE_train_00000530", "530"), "ADE_train_00000530.jpg"),
        (["ADE_train_00000530"], ("ADE_val_00000530", "100530"), None),
        (["100530"], ("ADE_val_00000530", "100530"), "100530"),
        (["kitchen_1", "bedroom_1"], ("1",), None),
        (["sofa"], ("bed",), None),
        (["sofa"], ("17",), None),
        (["2014_x"], ("2014",), None),
    ],
)
def test_names_are_found_exactly_or_by_number(listed, keys, found):
    assert PictureNames(listed, "here").find(*keys) == found


def test_what_was_looked_for_is_shown_with_what_is_there():
    names = PictureNames(["a", "b", "c", "d"], "here.tsv")
    message = "here.tsv has nothing for the picture 'x' or '5'. It lists 4 names, such as a, b, c."
    assert str(names.not_found("x", "5")) == message
    names = PictureNames(["kitchen_1", "bedroom_1"], "here")
    assert str(names.not_found("1")) == "here lists several pictures that '1' could mean: kitchen_1, bedroom_1."
