"""Does every picture get its own file, once, and does nothing get mixed, lost or left half done?"""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from lit_attn.data.regions import Regions, read_npz
from lit_attn.errors import UserError
from lit_attn.extract.detector import Detector, Selection
from lit_attn.extract.pictures import find_pictures
from lit_attn.extract.regions import Result, claim, extract

SETTINGS = {"detector": "some", "threshold": 0.2, "half": False}


class Counting:
    """Stands for a detector: one region, the whole picture, with the colour of its first pixel as feature."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, picture: Image.Image, name: str) -> Regions:
        self.seen.append(name)
        feature = np.array(picture, np.float32)[0, :1] / 7
        box = np.array([[0, 0, *picture.size]], np.float32)
        return Regions(name, feature, box, *picture.size)


def paint(path: Path, color: tuple[int, int, int], size: tuple[int, int] = (8, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    paint(folder / "a.png", (70, 0, 0))
    paint(folder / "b.png", (0, 70, 0))
    paint(folder / "deep" / "a.png", (0, 0, 70))
    return folder


def run(images: Path, out: Path, detect: Counting | None = None, **options) -> dict[str, tuple[str, str]]:
    outcomes = extract(find_pictures([images]), detect or Counting(), out, **options)
    return {str(o.source.path.relative_to(images)): (o.result.value, o.reason) for o in outcomes}


def test_one_file_per_picture_and_equal_names_in_other_folders_stay_apart(images, tmp_path):
    out = tmp_path / "out"
    claim(out, SETTINGS)
    done = run(images, out)
    assert {result for result, _ in done.values()} == {"made"}
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*.npz")) == ["a.npz", "b.npz", "deep/a.npz"]
    np.testing.assert_array_equal(read_npz(out / "a.npz").features, [[10, 0, 0]])
    np.testing.assert_array_equal(read_npz(out / "deep" / "a.npz").features, [[0, 0, 10]])
    assert read_npz(out / "deep" / "a.npz").name == "deep/a"
    record = [json.loads(line) for line in (out / "pictures.jsonl").read_text().splitlines()]
    assert [entry["name"] for entry in record] == ["a", "b", "deep/a"]
    assert record[2]["path"] == str(images / "deep" / "a.png")


def test_what_is_done_is_not_done_again_unless_asked(images, tmp_path):
    out, detect = tmp_path / "out", Counting()
    claim(out, SETTINGS)
    run(images, out)
    (out / "b.npz").unlink()
    assert {name: result for name, (result, _) in run(images, out, detect).items()} == {
        "a.png": "kept",
        "b.png": "made",
        "deep/a.png": "kept",
    }
    assert detect.seen == ["b"]
    assert {result for result, _ in run(images, out, detect, overwrite=True).values()} == {"made"}
    assert detect.seen == ["b", "a", "b", "deep/a"]


def test_a_file_without_a_whole_line_in_the_record_is_made_again(images, tmp_path):
    out, detect = tmp_path / "out", Counting()
    claim(out, SETTINGS)
    run(images, out)
    record = out / "pictures.jsonl"
    lines = record.read_text().splitlines()
    record.write_text("\n".join([lines[0], "[1]", '{"name": 3}', lines[1][:40]]))
    run(images, out, detect)
    assert detect.seen == ["b", "deep/a"]
    run(images, out, detect)
    assert detect.seen[2:] == ["b"], "the line after the half one was lost; the next is whole"
    run(images, out, detect)
    assert len(detect.seen) == 3


def test_another_picture_of_the_same_name_is_not_taken_for_done(images, tmp_path):
    out = tmp_path / "out"
    claim(out, SETTINGS)
    run(images, out)
    other = tmp_path / "other"
    paint(other / "a.png", (0, 7, 7))
    result, reason = run(other, out)["a.png"]
    assert result == "skipped"
    assert "a.npz was made from another picture" in reason
    np.testing.assert_array_equal(read_npz(out / "a.npz").features, [[10, 0, 0]])
    assert run(other, out, overwrite=True)["a.png"] == ("made", "")
    np.testing.assert_array_equal(read_npz(out / "a.npz").features, [[0, 1, 1]])
    assert run(other, out)["a.png"] == ("kept", "")


def test_two_pictures_that_differ_in_their_suffix_only(images, tmp_path):
    out = tmp_path / "out"
    claim(out, SETTINGS)
    paint(images / "a.bmp", (7, 7, 7))
    for _ in range(2):
        result, reason = run(images, out)["a.png"]
        assert (result, reason) == ("skipped", "a.bmp has the same name, rename one of them")
    np.testing.assert_array_equal(read_npz(out / "a.npz").features, [[1, 1, 1]])


def test_broken_pictures_are_skipped_with_their_reasons(images, tmp_path):
    out = tmp_path / "out"
    claim(out, SETTINGS)
    whole = (images / "b.png").read_bytes()
    (images / "cut.png").write_bytes(whole[:-30])
    (images / "empty.jpg").write_bytes(b"")
    (images / "page.jpg").write_text("<html>not found</html>")
    (images / "gone.jpg").symlink_to(images / "nowhere")
    done = run(images, out)
    assert [name for name, (result, _) in done.items() if result == "made"] == ["a.png", "b.png", "deep/a.png"]
    assert "cannot be read" in done["cut.png"][1]
    assert done["empty.jpg"][1] == "the file is empty"
    assert "not a picture" in done["page.jpg"][1]
    assert "cannot be opened: No such file" in done["gone.jpg"][1]
    assert not (out / "cut.npz").exists()


def test_half_precision_features(images, tmp_path):
    claim(tmp_path / "half", SETTINGS)
    run(images, tmp_path / "half", half=True)
    with np.load(tmp_path / "half" / "a.npz") as file:
        assert file["feat"].dtype == np.float16
        assert file["bbox"].dtype == np.float32


def test_settings_are_recorded_and_others_refused(images, tmp_path):
    out = tmp_path / "out"
    claim(out, SETTINGS)
    assert yaml.safe_load((out / "regions.yaml").read_text()) == SETTINGS
    claim(out, SETTINGS)
    with pytest.raises(
        UserError, match=r"out holds regions that were made otherwise: threshold was 0\.2, is 0\.3; half"
    ):
        claim(out, SETTINGS | {"threshold": 0.3, "half": True})
    with pytest.raises(UserError, match="size was None, is 64"):
        claim(out, SETTINGS | {"size": 64})
    (out / "regions.yaml").write_text("- 1")
    with pytest.raises(UserError, match=r"regions\.yaml does not say what made"):
        claim(out, SETTINGS)
    (out / "regions.yaml").write_text("a: [")
    with pytest.raises(UserError, match=r"Cannot read .*regions\.yaml"):
        claim(out, SETTINGS)
    (out / "regions.yaml").unlink()
    run(images, out)
    with pytest.raises(UserError, match=r"holds npz files, but no regions\.yaml"):
        claim(out, SETTINGS)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write to .*file"):
        claim(tmp_path / "file", SETTINGS)


def test_a_kill_inside_a_write_leaves_no_half_file(images, tmp_path, monkeypatch):
    out = tmp_path / "out"
    claim(out, SETTINGS)

    def stop(file, **arrays):
        file.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr("lit_attn.data.regions.np.savez", stop)
    with pytest.raises(KeyboardInterrupt):
        run(images, out)
    assert not list(out.rglob("*.npz"))
    monkeypatch.undo()
    assert {result for result, _ in run(images, out).values()} == {"made"}
    assert {path.name for path in out.iterdir()} == {"a.npz", "b.npz", "deep", "regions.yaml", "pictures.jsonl"}


def test_real_pictures_with_a_real_detector(network, shared_data, tmp_path):
    folder = shared_data("bottom_up/images")
    claim(tmp_path / "out", SETTINGS)
    detect = Detector(network, Selection(10, 50, 0.2), 64)
    outcomes = list(extract(find_pictures([folder]), detect, tmp_path / "out"))
    assert [o.result for o in outcomes] == [Result.MADE] * 4
    for path in sorted(folder.iterdir()):
        regions = read_npz(tmp_path / "out" / f"{path.stem}.npz")
        assert 10 <= len(regions) <= 50
        with Image.open(path) as picture:
            assert (regions.width, regions.height) == picture.size
        assert len(regions.described()) == len(regions)
