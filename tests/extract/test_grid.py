"""Does every picture get its own row, are numbers those of the network, and does a kill at any moment cost nothing?"""

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file

from lit_attn.data.grid_store import GridStore
from lit_attn.errors import UserError
from lit_attn.extract import grid
from lit_attn.extract.backbone import Backbone
from lit_attn.extract.grid import claim, extract
from lit_attn.extract.pictures import find_pictures

SETTINGS = {"backbone": "some", "size": 8, "std": "0.1 0.2 0.3"}
SHAPE = (3, 2, 5)
SMALL = "test_resnet"


class Painting:
    """Stands for a backbone: each channel is a colour of the first pixel, in every cell."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.batches: list[int] = []
        self.stop_at = stop_at

    def __call__(self, pictures) -> np.ndarray:
        if len(self.batches) == self.stop_at:
            raise KeyboardInterrupt
        self.batches.append(len(pictures))
        first = np.stack([np.array(picture, np.float32)[0, 0] for picture in pictures])
        return np.tile(first[:, :, None, None], (1, 1, *SHAPE[1:]))


def paint(path: Path, red: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), (red, 0, 7)).save(path)


@pytest.fixture
def images(tmp_path) -> Path:
    folder = tmp_path / "images"
    for number, name in enumerate(("b", "a-z", "a/c", "a/d", "e", "f", "g")):
        paint(folder / f"{name}.png", 10 * number)
    return folder


def run(images: Path, out: Path, describe=None, batch: int = 3, half: bool = False, **settings) -> dict:
    sources = find_pictures([images])
    claim(out, sources, SHAPE, SETTINGS | settings, half)
    outcomes = extract(sources, describe or Painting(), out, batch)
    return {str(o.source.path.relative_to(images)): (o.result.value, o.reason) for o in outcomes}


def content(path: Path) -> tuple:
    with h5py.File(path, "r") as file:
        arrays = {name: file[name][:].tobytes() for name in ("features", "sha256", "done")}
        return arrays, list(file["names"].asstr()[:]), dict(file.attrs)


def test_rows_are_in_order_of_names_and_say_what_made_them(images, tmp_path):
    out = tmp_path / "new" / "x.h5"
    done = run(images, out)
    assert {result for result, _ in done.values()} == {"made"}
    assert len(done) == 7
    store = GridStore(out)
    assert store.names == ("a-z", "a/c", "a/d", "b", "e", "f", "g")
    reds = [store.read(row)[0, 1, 4] for row in range(7)]
    assert reds == [10, 20, 30, 0, 40, 50, 60]
    np.testing.assert_array_equal(store.read(3)[2], np.full(SHAPE[1:], 7))
    assert store.row(99, "d") == 2
    with h5py.File(out) as file:
        assert file["features"].chunks == (1, *SHAPE)
        assert file["features"].dtype == np.float32
        assert file["done"][:].all()
        assert dict(file.attrs) == SETTINGS | {"half": False}
        assert file["sha256"][3].decode() == hashlib.sha256((images / "b.png").read_bytes()).hexdigest()
    assert [path.name for path in out.parent.iterdir()] == ["x.h5"]


def test_half_precision(images, tmp_path):
    run(images, tmp_path / "x.h5", half=True)
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["features"].dtype == np.float16
        assert file["features"][3, 2, 0, 0] == 7


def test_what_is_done_is_kept_and_the_rest_goes_on(images, tmp_path):
    out = tmp_path / "x.h5"
    stopped = Painting(stop_at=1)
    with pytest.raises(KeyboardInterrupt):
        run(images, out, stopped)
    with pytest.raises(UserError, match="the grid of the picture 'b' is not there yet"):
        GridStore(out).row(0, "b")
    again = Painting()
    done = run(images, out, again)
    assert [name for name, (result, _) in done.items() if result == "kept"] == ["a-z.png", "a/c.png", "a/d.png"]
    assert again.batches == [3, 1]
    run(images, tmp_path / "undisturbed.h5")
    assert content(out) == content(tmp_path / "undisturbed.h5")
    nothing = Painting()
    assert {result for result, _ in run(images, out, nothing).values()} == {"kept"}
    assert nothing.batches == []


def test_a_row_is_done_only_after_it_was_written(images, tmp_path, monkeypatch):
    out = tmp_path / "x.h5"
    flushes = []

    def flush(file: h5py.File) -> None:
        flushes.append((file["features"][:3].copy(), file["done"][:3].copy()))
        if len(flushes) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(grid.h5py.File, "flush", flush)
    with pytest.raises(KeyboardInterrupt):
        run(images, out)
    (features, before), (_, after) = flushes
    assert features[:, 0, 0, 0].tolist() == [10, 20, 30]
    assert (before.any(), after.all()) == (False, True)


def test_broken_pictures_are_skipped_and_their_rows_stay_open(images, tmp_path):
    out = tmp_path / "x.h5"
    (images / "c.png").write_bytes(b"?")
    done = run(images, out)
    assert done["c.png"] == ("skipped", "it is not a picture, or its header is damaged")
    assert sum(result == "made" for result, _ in done.values()) == 7
    with h5py.File(out) as file:
        assert file["done"][:].tolist() == [True] * 4 + [False] + [True] * 3
    paint(images / "c.png", 33)
    assert run(images, out)["c.png"] == ("made", "")
    assert GridStore(out).read(4)[0, 0, 0] == 33


def test_another_picture_of_the_same_name_is_not_taken_for_done(images, tmp_path):
    out = tmp_path / "x.h5"
    run(images, out)
    paint(images / "b.png", 200)
    assert run(images, out)["b.png"] == ("skipped", "its row was made from another picture, choose another --out")
    assert GridStore(out).read(3)[0, 0, 0] == 0


def test_two_pictures_that_differ_in_their_suffix_only(images, tmp_path):
    paint(images / "b.bmp", 99)
    assert run(images, tmp_path / "x.h5")["b.png"] == ("skipped", "b.bmp has the same name, rename one of them")
    assert GridStore(tmp_path / "x.h5").read(3)[0, 0, 0] == 99


def test_files_of_others_are_refused(images, tmp_path):
    out = tmp_path / "x.h5"
    run(images, out)
    with pytest.raises(UserError, match=r"x\.h5 holds grids that were made otherwise: size was 8, is 9. .*that file"):
        run(images, out, size=9)
    with pytest.raises(UserError, match="half was False, is True"):
        run(images, out, half=True)
    paint(images / "new.png", 1)
    with pytest.raises(UserError, match=r"x\.h5 has rows for 7 pictures, other .* 8: it has no row for 'new'\. Choose"):
        run(images, out)
    (images / "b.png").unlink()
    with pytest.raises(UserError, match="no row for 'new', and nobody asked for its 'b'"):
        run(images, out)
    (tmp_path / "half.h5").write_bytes(out.read_bytes()[:900])
    with pytest.raises(UserError, match=r"half\.h5 is no whole HDF5 file"):
        run(images, tmp_path / "half.h5")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["features"] = np.zeros((1, *SHAPE))
    with pytest.raises(UserError, match=r"foreign\.h5 was not made by lit-attn extract grid"):
        run(images, tmp_path / "foreign.h5")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Cannot write .*file/x\.h5"):
        run(images, tmp_path / "file" / "x.h5")


def test_a_kill_while_the_file_is_made_leaves_none(images, tmp_path, monkeypatch):
    monkeypatch.setattr(grid.h5py.h5d, "create", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run(images, tmp_path / "x.h5")
    assert not list(tmp_path.glob("*.h5"))
    monkeypatch.undo()
    assert {result for result, _ in run(images, tmp_path / "x.h5").values()} == {"made"}


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    blocks = [rng.integers(0, 256, (7, 11, 3), np.uint8) for _ in range(2)]
    return [Image.fromarray(block).resize((110, 70), Image.Resampling.BICUBIC) for block in blocks]


def test_torchvisions_network_gives_the_same_grid(photos, tmp_path):
    """An independent network with the same weights, fed by hand; its classifier is left out when the file is read."""
    network = torchvision.models.resnet18(weights=None).eval()
    for name, value in network.named_buffers():
        if name.endswith("running_var"):
            value.uniform_(0.5, 2)
    torch.save(network.state_dict(), tmp_path / "own.pth")
    backbone = Backbone("resnet18", str(tmp_path / "own.pth"), stage=3, size=96, blue_std=0.224)
    assert backbone.shape == (256, 6, 6)
    pixels = np.stack([np.array(p.resize((96, 96), Image.Resampling.BICUBIC), np.float64) for p in photos]) / 255
    pixels = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.224]
    network = network.double()
    with torch.inference_mode():
        maps = network.maxpool(network.relu(network.bn1(network.conv1(torch.from_numpy(pixels).permute(0, 3, 1, 2)))))
        expected = network.layer3(network.layer2(network.layer1(maps)))
    assert expected.std() > 0.1
    np.testing.assert_allclose(backbone(photos), expected, rtol=1e-4, atol=1e-4)


def test_the_default_is_the_network_behind_the_published_features():
    backbone = Backbone(weights="random")
    assert backbone.shape == (1024, 14, 14)
    assert backbone.settings == {
        "backbone": "resnet101.tv_in1k",
        "weights": "random, seed 0",
        "stage": 3,
        "size": 224,
        "mean": "0.485 0.456 0.406",
        "std": "0.229 0.224 0.225",
    }


def test_files_of_weights_are_read_and_those_that_do_not_fit_refused(photos, tmp_path):
    random = Backbone(SMALL, "random", size=64)
    state = {
        name: value + 0.1 if value.is_floating_point() else value for name, value in random.model.state_dict().items()
    }
    save_file(state, tmp_path / "own.safetensors")
    own = Backbone(SMALL, str(tmp_path / "own.safetensors"), size=64)
    digest = hashlib.sha256((tmp_path / "own.safetensors").read_bytes()).hexdigest()
    assert own.settings["weights"] == f"sha256 {digest}"
    assert not np.allclose(own(photos), random(photos))
    np.testing.assert_array_equal(Backbone(SMALL, "random", size=64)(photos), random(photos))
    counted = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    save_file(counted | {"fc.weight": torch.zeros(5, 96)}, tmp_path / "old.safetensors")
    np.testing.assert_array_equal(Backbone(SMALL, str(tmp_path / "old.safetensors"), size=64)(photos), own(photos))
    for change, says in (
        ({"conv1.0.weight": None}, "does not fit the backbone test_resnet: it lacks conv1.0.weight"),
        ({"extra": torch.zeros(2)}, "it has besides extra"),
        ({"conv1.0.weight": torch.zeros(2, 2)}, "does not fit the backbone test_resnet: size mismatch"),
    ):
        changed = {name: value for name, value in (state | change).items() if value is not None}
        save_file(changed, tmp_path / "bad.safetensors")
        with pytest.raises(UserError, match=says):
            Backbone(SMALL, str(tmp_path / "bad.safetensors"), size=64)
    (tmp_path / "bad.pth").write_bytes(b"?")
    with pytest.raises(UserError, match=r"bad\.pth is no file of weights that can be read safely"):
        Backbone(SMALL, str(tmp_path / "bad.pth"), size=64)


def test_published_weights_come_from_the_hub(tmp_path, monkeypatch):
    asked = []

    def offline(repository: str, file: str) -> str:
        asked.append((repository, file))
        raise OSError("no connection")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", offline)
    with pytest.raises(UserError, match=r"Cannot download the weights of test_resnet: no connection.*--weights random"):
        Backbone(SMALL, size=64)
    assert asked == [("timm/test_resnet.r160_in1k", "model.safetensors")]
    save_file(Backbone(SMALL, "random", size=64).model.state_dict(), tmp_path / "model.safetensors")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repository, file: str(tmp_path / file))
    assert Backbone(SMALL, size=64).weights.startswith("sha256 ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "resnet1O1"}, r"Unknown backbone 'resnet1O1'\. Did you mean 'resnet101'\? Any of timm's"),
        ({"name": "resnet101.best"}, r"timm does not know the backbone 'resnet101\.best'"),
        ({"name": "densenet121"}, "The backbone densenet121 gives no maps of its stages"),
        ({"stage": 5}, "The backbone test_resnet has the stages 0 to 4, not 5"),
        ({"name": "mobilenetv2_100", "size": 0}, "must be at least 1 pixel, got 0"),
        ({"name": "vit_tiny_patch16_224", "size": 100}, "vit_tiny_patch16_224 cannot take pictures of 100 x 100"),
        ({"blue_std": 0.0}, "more than 0, got 0.0 for blue"),
        ({"weights": "randm"}, r"No weights 'randm'\. Did you mean 'random'\?"),
    ],
)
def test_mistakes_are_told(options, says):
    with pytest.raises(UserError, match=says):
        Backbone(**({"name": SMALL, "weights": "random"} | options))


def test_real_pictures(shared_data, tmp_path):
    folder = shared_data("clevr/images")
    sources = find_pictures([folder])[:5]
    backbone = Backbone(SMALL, "random", size=64)
    claim(tmp_path / "x.h5", sources, backbone.shape, backbone.settings, half=False)
    assert {o.result.value for o in extract(sources, backbone, tmp_path / "x.h5", 2)} == {"made"}
    store = GridStore(tmp_path / "x.h5")
    grids = [store.read(store.row(0, source.name)) for source in sources]
    assert len({g.tobytes() for g in grids}) == 5
    with Image.open(sources[4].path) as picture:
        np.testing.assert_allclose(grids[4], backbone([picture])[0], rtol=1e-4, atol=1e-5)
