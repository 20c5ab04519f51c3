"""Are the public files read as distributed, and are broken ones named?"""

import numpy as np
import pytest

from lit_attn.data.matching import PairDataset, PictureDataset
from lit_attn.data.pictures import collate
from lit_attn.data.precomp import PrecompMatching, PrecompSource
from lit_attn.data.vocab import Vocabulary
from lit_attn.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Seven pictures with five captions each, in the layout of f30k_precomp."""
    random = np.random.default_rng(0)
    for split in ("train", "dev", "test"):
        captions = [f"A dog number {c % 5} runs over picture {c // 5} ." for c in range(35)]
        (tmp_path / f"{split}_caps.txt").write_text("\n".join(captions) + "\n")
        np.save(tmp_path / f"{split}_ims.npy", random.standard_normal((7, 36, 11)).astype(np.float32))
        (tmp_path / f"{split}_ids.txt").write_text("\n".join(map(str, range(7))))
    return tmp_path


def vocabulary() -> Vocabulary:
    return Vocabulary.build([["a", "dog", "number", "runs", "over", "picture", "."]], 1)


def test_captions_meet_their_pictures(folder):
    source = PrecompSource(folder, "train", vocabulary())
    features = np.load(folder / "train_ims.npy")
    assert (source.num_pictures, source.region_dim) == (7, 11)
    picture, (caption,) = PairDataset(source)[17]
    np.testing.assert_array_equal(picture.regions, features[3])
    assert caption.sample_id == "train-17"
    words = source.vocabulary.decode(caption.ids)
    assert words == ["<start>", "a", "dog", "number", "<unk>", "runs", "over", "picture", "<unk>", ".", "<end>"]


def test_rows_repeated_per_caption_are_understood(folder):
    features = np.load(folder / "train_ims.npy")
    np.save(folder / "train_ims.npy", features.repeat(5, 0))
    source = PrecompSource(folder, "train", vocabulary())
    np.testing.assert_array_equal(source.picture(6).regions, features[6])


def test_features_stay_on_disk(folder):
    assert isinstance(PrecompSource(folder, "train", vocabulary()).features, np.memmap)


def test_boxes_are_used_when_they_are_there(folder):
    assert PrecompSource(folder, "train", vocabulary()).picture(0).boxes.tolist() == [[0, 0, 1, 1]] * 36
    boxes = np.random.default_rng(1).random((7, 36, 4)).astype(np.float32)
    np.save(folder / "train_boxes.npy", boxes)
    np.testing.assert_array_equal(PrecompSource(folder, "train", vocabulary()).picture(2).boxes, boxes[2])
    np.save(folder / "train_boxes.npy", boxes[:3])
    with pytest.raises(UserError, match=r"train_boxes.npy has shape \(3, 36, 4\)"):
        PrecompSource(folder, "train", vocabulary())


def test_datamodule_builds_its_vocabulary_and_batches(folder):
    data = PrecompMatching(str(folder), batch_size=3, eval_batch_size=2, num_workers=0, min_count=4)
    assert "dog" in data.vocabulary.ids
    assert data.region_dim == 11
    batch = next(iter(data.train_dataloader()))
    assert batch.regions.shape == (3, 36, 11)
    assert batch.tokens.shape[0] == 3
    evaluation = list(data.val_dataloader())
    assert [len(b.image_id) for b in evaluation] == [2, 2, 2, 1]
    assert [len(b.caption_id) for b in evaluation] == [10, 10, 10, 5]
    assert evaluation[1].owner.tolist() == [0] * 5 + [1] * 5
    limited = PrecompMatching(str(folder), max_train_images=2, num_workers=0)
    assert limited.source("train").num_pictures == 2


def test_collate_pads_and_marks_padding():
    class Ragged(PrecompSource):
        def __init__(self) -> None:
            self.num_pictures, self.captions_per_picture = 2, 1

        def picture(self, index):
            from lit_attn.data.pictures import Picture

            return Picture(index, np.ones((3 + 4 * index, 5), np.float32), np.ones((3 + 4 * index, 4), np.float32))

        def caption(self, index):
            from lit_attn.data.pictures import Caption

            return Caption(index, str(index), tuple(range(1, 4 + index)))

    dataset = PictureDataset(Ragged())
    batch = collate([dataset[0], dataset[1]])
    assert batch.region_mask.sum(1).tolist() == [3, 7]
    assert batch.regions[0, 3:].eq(0).all()
    assert batch.token_mask.sum(1).tolist() == [3, 4]
    assert batch.tokens[0].tolist() == [1, 2, 3, 0]


def spoil(folder, what):
    features = np.load(folder / "train_ims.npy")
    match what:
        case "missing":
            (folder / "train_ims.npy").unlink()
        case "truncated":
            data = (folder / "train_ims.npy").read_bytes()
            (folder / "train_ims.npy").write_bytes(data[: len(data) // 2])
        case "nan":
            features[6, 5, 3] = np.nan
            np.save(folder / "train_ims.npy", features)
        case "pickled":
            np.save(folder / "train_ims.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        case "flat":
            np.save(folder / "train_ims.npy", features[:, 0])
        case "captions":
            lines = (folder / "train_caps.txt").read_text().splitlines()
            (folder / "train_caps.txt").write_text("\n".join(lines[:-1]))
        case "rows":
            np.save(folder / "train_ims.npy", features[:4])
        case "empty":
            (folder / "train_caps.txt").write_text("")
        case "no captions":
            (folder / "train_caps.txt").unlink()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("missing", "Cannot read the features .*train_ims.npy: No such file"),
        ("truncated", "train_ims.npy is not a complete .npy array"),
        ("nan", "train_ims.npy: row 6 holds NaN"),
        ("pickled", "train_ims.npy is not a complete .npy array of numbers"),
        ("flat", r"expected floats \[pictures, regions, channels\]"),
        ("captions", "34 captions, which is not a multiple of 5"),
        ("rows", "has 4 rows for 35 captions"),
        ("empty", "train_caps.txt is empty"),
        ("no captions", "Cannot read the captions .*train_caps.txt"),
    ],
)
def test_broken_files_are_named(folder, what, message):
    spoil(folder, what)
    with pytest.raises(UserError, match=message):
        PrecompSource(folder, "train", vocabulary())


def test_nan_between_the_checked_rows_is_found_when_it_is_read(folder, monkeypatch):
    features = np.load(folder / "train_ims.npy")
    features[3, 0, 0] = np.inf
    np.save(folder / "train_ims.npy", features)
    source = PrecompSource(folder, "train", vocabulary())
    with pytest.raises(UserError, match="row 3 holds NaN or infinity"):
        source.picture(3)


def test_a_folder_that_is_none_is_named():
    with pytest.raises(UserError, match="data.root 'nowhere' is not a folder"):
        PrecompMatching("nowhere")
