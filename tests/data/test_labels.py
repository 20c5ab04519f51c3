"""Are label files those of the public preparation, number by number?"""

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from lit_attn.data.caption_files import CaptionedPicture, read_captions
from lit_attn.data.labels import build_words, prepare_labels, read_labels, write_labels
from lit_attn.errors import UserError
from lit_attn.vocabulary import CaptionWords

PREPARED = Path(os.environ.get("LIT_ATTN_SHARED", Path(__file__).parents[3] / "shared")) / "golden" / "ort" / "prepro"
ARRAYS = {"labels": "labels", "label_length": "length", "label_start_ix": "start", "label_end_ix": "end"}


@pytest.fixture
def prepared():
    if not PREPARED.exists():
        pytest.skip(f"{PREPARED} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
    return PREPARED


@pytest.mark.parametrize(("threshold", "max_words"), [(5, 16), (0, 10)])
def test_labels_equal_the_original_under_python_3(prepared, tmp_path, threshold, max_words):
    pictures = read_captions(prepared / "dataset.json")
    labels = prepare_labels(pictures, build_words(pictures, min_count=threshold + 1), max_words)
    with np.load(prepared / f"python3_thr{threshold}_label.npz") as golden:
        assert set(golden.files) == ARRAYS.keys()
        for name, ours in ARRAYS.items():
            assert getattr(labels, ours).dtype == golden[name].dtype
            np.testing.assert_array_equal(getattr(labels, ours), golden[name])
    write_labels(labels, pictures, tmp_path)
    written = json.loads((tmp_path / "cocotalk.json").read_text())
    assert written == json.loads((prepared / f"python3_thr{threshold}.json").read_text())


def test_the_written_hdf5_equals_the_original(prepared, tmp_path):
    pictures = read_captions(prepared / "dataset.json")
    write_labels(prepare_labels(pictures, build_words(pictures)), pictures, tmp_path)
    with h5py.File(prepared / "python3_thr5_label.h5") as golden, h5py.File(tmp_path / "cocotalk_label.h5") as ours:
        assert set(ours) == set(golden) == ARRAYS.keys()
        for name in ARRAYS:
            assert ours[name].dtype == golden[name].dtype
            np.testing.assert_array_equal(ours[name][:], golden[name][:])


@pytest.mark.parametrize(("threshold", "max_words"), [(5, 16), (0, 10)])
def test_ids_of_python_2_come_from_its_own_vocabulary(prepared, threshold, max_words):
    words = CaptionWords.read(prepared / f"python2_thr{threshold}.json")
    labels = prepare_labels(read_captions(prepared / "dataset.json"), words, max_words)
    with np.load(prepared / f"python2_thr{threshold}_label.npz") as golden:
        for name, ours in ARRAYS.items():
            np.testing.assert_array_equal(getattr(labels, ours), golden[name])


def test_a_real_data_set_is_reproduced(shared_data):
    folder = shared_data("karpathy_ucm/dataset.json").parent
    published = read_labels(folder)
    pictures = read_captions(folder / "dataset.json")
    ours = prepare_labels(pictures, published.words)
    assert published.labels.shape == (10500, 16)
    for name in ARRAYS.values():
        np.testing.assert_array_equal(getattr(ours, name), getattr(published, name))
    assert set(build_words(pictures).words) == set(published.words.words)
    images = json.loads((folder / "cocotalk.json").read_text())["images"]
    assert [(p.picture_id, p.split, p.file) for p in pictures] == [
        (i["id"], i["split"], i["file_path"]) for i in images
    ]


def picture(*captions: str) -> CaptionedPicture:
    return CaptionedPicture("x.jpg", "train", tuple(tuple(caption.split()) for caption in captions), 7)


def test_labels_come_back_and_a_picture_may_lack_captions(tmp_path):
    pictures = [picture("a b", "c"), picture(), picture("c c c c")]
    labels = prepare_labels(pictures, build_words(pictures, min_count=2), max_words=3)
    assert labels.words.words == ("c", "UNK")
    assert labels.labels.tolist() == [[2, 2, 0], [1, 0, 0], [1, 1, 1]]
    assert labels.length.tolist() == [2, 1, 3]
    assert (labels.start.tolist(), labels.end.tolist()) == ([1, 3, 3], [2, 2, 3])
    write_labels(labels, pictures, tmp_path / "new" / "folder")
    back = read_labels(tmp_path / "new" / "folder")
    assert [back.of_picture(i).tolist() for i in range(3)] == [[[2, 2, 0], [1, 0, 0]], [], [[1, 1, 1]]]
    assert back.words == labels.words
    assert back.labels.dtype == np.uint32


def test_label_files_that_do_not_belong_together_are_named(tmp_path):
    pictures = [picture("a"), picture("a")]
    labels = prepare_labels(pictures, build_words(pictures, min_count=1))
    write_labels(labels, pictures, tmp_path)
    write_labels(labels, pictures[:1], tmp_path / "other")
    (tmp_path / "cocotalk.json").write_bytes((tmp_path / "other" / "cocotalk.json").read_bytes())
    with pytest.raises(UserError, match="cocotalk_label.h5 has captions of 2 pictures, but cocotalk.json lists 1"):
        read_labels(tmp_path)
    (tmp_path / "cocotalk_label.h5").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cocotalk_label.h5 is no complete file of labels"):
        read_labels(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write labels into .*file"):
        write_labels(labels, pictures, tmp_path / "file")
