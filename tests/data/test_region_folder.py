"""Do a user's own pictures reach a captioner, and only for predict?"""

import json

import numpy as np
import pytest
from PIL import Image

from lit_attn.data.region_folder import RegionFolder
from lit_attn.data.region_hdf5 import write_hdf5
from lit_attn.data.regions import write_npz
from lit_attn.errors import UserError
from tests.reference.region_files import DIM, some_regions

PICTURES = [some_regions(name, count) for name, count in (("bath", 3), ("kitchen", 0), ("sofa", 101))]


@pytest.fixture
def folder(tmp_path):
    for regions in PICTURES:
        write_npz(regions, tmp_path / "regions" / f"{regions.name}.npz")
    write_hdf5(PICTURES, tmp_path / "regions.h5")
    (tmp_path / "words.json").write_text(json.dumps({"ix_to_word": {"1": "a", "2": "sofa"}}))
    return tmp_path


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("root", ["regions", "regions.h5"])
def test_every_picture_comes_once_without_captions(folder, root, num_workers):
    data = RegionFolder(str(folder / root), str(folder / "words.json"), eval_batch_size=2, num_workers=num_workers)
    assert (data.region_dim, data.vocab_size) == (DIM, 3)
    first, second = list(data.predict_dataloader())
    assert (first.picture_name, second.picture_name) == (("bath", "kitchen"), ("sofa",))
    assert first.image_id.tolist() + second.image_id.tolist() == [0, 1, 2]
    assert first.region_mask.sum(1).tolist() == [3, 0]
    np.testing.assert_array_equal(second.regions[0], PICTURES[2].features)
    assert len(first.caption_id) == len(second.caption_id) == 0
    assert first.references == ((), ())
    assert len(second.region_labels[0]) == 101


def test_pictures_are_shown(folder):
    (folder / "images").mkdir()
    Image.new("L", (13, 17)).save(folder / "images" / "sofa.png")
    data = RegionFolder(str(folder / "regions"), str(folder / "words.json"), images=str(folder / "images"))
    assert data.show(2, "predict").size == (13, 17)
    assert data.show(0, "predict") is None


@pytest.mark.parametrize("loader", ["train_dataloader", "val_dataloader", "test_dataloader"])
def test_other_uses_say_what_is_lacking(folder, loader):
    data = RegionFolder(str(folder / "regions"), str(folder / "words.json"))
    with pytest.raises(
        UserError, match="has pictures without captions, which (train|val|test) needs. Use it with predict"
    ):
        getattr(data, loader)()
    with pytest.raises(UserError, match="pictures without captions, which train needs"):
        data.training_references()


def test_the_words_must_be_known(folder):
    with pytest.raises(UserError, match="data.vocabulary is not set"):
        RegionFolder(str(folder / "regions")).predict_dataloader()


def test_folders_inside_keep_pictures_of_one_name_apart(folder):
    """As `lit-attn extract regions` writes them: the name is the path, and the picture is found by it, upright."""
    for place in ("garden", "house"):
        write_npz(PICTURES[0], folder / "nested" / place / "front.npz")
        (folder / "images" / place).mkdir(parents=True)
    Image.new("L", (13, 17)).save(folder / "images" / "garden" / "front.png")
    turned = Image.Exif()
    turned[274] = 6  # a camera held upright
    Image.new("RGB", (19, 11)).save(folder / "images" / "house" / "front.jpg", exif=turned)
    data = RegionFolder(str(folder / "nested"), str(folder / "words.json"), images=str(folder / "images"))
    (batch,) = list(data.predict_dataloader())
    assert batch.picture_name == ("garden/front", "house/front")
    assert [data.show(i, "predict").size for i in (0, 1)] == [(13, 17), (11, 19)]
