"""Do weights come from where the user says, and is every file that does not fit refused with the reason?"""

import argparse
import hashlib
import logging
import pickle
import urllib.error
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lit_attn.errors import UserError
from lit_attn.extract import weights
from lit_attn.extract.weights import load_network, usable_detectors

SMALL = "fasterrcnn_mobilenet_v3_large_320_fpn"


@pytest.fixture(scope="module")
def network():
    return load_network(SMALL, "random")


@pytest.fixture(scope="module")
def state(network):
    return {name: value.clone() for name, value in network.model.state_dict().items()}


@pytest.fixture(scope="module")
def file(state, tmp_path_factory):
    """As torchvision publishes weights of frozen batch norm: without step counters."""
    path = tmp_path_factory.mktemp("weights") / "own.pth"
    torch.manual_seed(1)
    kept = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    changed = {name: value + 0.01 * torch.randn_like(value) for name, value in kept.items()}
    torch.save(changed, path)
    return path


def same(one: dict, other: dict) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one if not name.endswith("num_batches_tracked"))


def test_random_weights_are_the_same_in_every_run_and_leave_the_generator_alone(state):
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    again = load_network(SMALL, "random")
    assert torch.equal(torch.rand(1), expected)
    assert same(again.model.state_dict(), state)
    assert again.weights == "random, seed 0"
    assert (again.class_names[0], len(again.class_names)) == ("person", 90)
    assert not again.model.training


def test_a_file_is_loaded_and_recorded_by_its_checksum(file, caplog):
    network = load_network(SMALL, str(file))
    assert same(torch.load(file, weights_only=True), network.model.state_dict())
    assert network.weights == f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert "does not name its classes" in caplog.text
    assert network.class_names[0] == "person"


@pytest.mark.parametrize("kind", ["safetensors", "training script"])
def test_other_kinds_of_files(file, tmp_path, kind):
    content = torch.load(file, weights_only=True)
    if kind == "safetensors":
        path = tmp_path / "own.safetensors"
        save_file(content, path)
    else:
        path = tmp_path / "model_25.pth"
        torch.save({"model": content, "args": argparse.Namespace(lr=0.02), "epoch": 25}, path)
    assert same(content, load_network(SMALL, str(path)).model.state_dict())


def test_own_classes(tmp_path, caplog):
    (tmp_path / "names.txt").write_text("cat\ndog, hound\nbird\n")
    network = load_network(SMALL, "random", tmp_path / "names.txt")
    assert network.class_names == ("cat", "dog", "bird")
    torch.save(network.model.state_dict(), tmp_path / "own.pth")
    with caplog.at_level(logging.WARNING):
        again = load_network(SMALL, str(tmp_path / "own.pth"), tmp_path / "names.txt")
    assert again.class_names == ("cat", "dog", "bird")
    assert not caplog.text
    with pytest.raises(UserError, match=r"own\.pth tells 3 classes apart.*90 names.*--classes FILE"):
        load_network(SMALL, str(tmp_path / "own.pth"))
    (tmp_path / "other.txt").write_text("cat\nhound\nbird\n")
    other = load_network(SMALL, "random", tmp_path / "other.txt")
    assert other.classes != network.classes, "the record tells them apart"


def test_a_published_file_is_recognised_by_its_checksum(file, monkeypatch, caplog):
    """The first ResNet-50 detectors were trained with epsilon 0; here the small one stands for them."""
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setattr(weights, "_hash_in_name", lambda entry: checksum[:8])
    monkeypatch.setattr(weights, "_EPSILON_ZERO", (SMALL,))
    network = load_network(SMALL, str(file))
    assert network.weights == f"COCO_V1, sha256 {checksum}"
    norms = [m for m in network.model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms
    assert {norm.eps for norm in norms} == {0.0}
    assert not caplog.text


def test_the_three_detectors_that_need_epsilon_zero_are_torchvisions():
    """Torchvision's own builders say so in their source."""
    import inspect

    from torchvision.models import get_model_builder

    need = [name for name in usable_detectors() if "overwrite_eps" in inspect.getsource(get_model_builder(name))]
    assert sorted(need) == sorted(weights._EPSILON_ZERO)


def test_hashes_are_read_from_the_names_of_published_files():
    from torchvision.models import get_model_weights

    found = {name: weights._hash_in_name(get_model_weights(name).DEFAULT) for name in usable_detectors()}
    assert found["fasterrcnn_resnet50_fpn"] == "258fb6c6"
    assert found[SMALL] == "907ea3f9"
    assert {len(digits) for digits in found.values()} == {8}


def test_without_a_network_the_file_to_fetch_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(torch.hub, "download_url_to_file", refuse)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    name = r"fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9\.pth"
    for wanted in ("default", "COCO_V1"):
        with pytest.raises(
            UserError, match=rf"no route to host.*https://.*{name}.*checkpoints/{name}.*--weights random"
        ):
            load_network(SMALL, wanted)


def test_a_damaged_download_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9.pth").write_bytes(b"half")
    with pytest.raises(UserError, match=r"907ea3f9\.pth are damaged.*Delete"):
        load_network(SMALL, "default")


def test_the_cached_file_is_used(file, tmp_path, monkeypatch):
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setattr(weights, "_hash_in_name", lambda entry: checksum[:8])
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", lambda *_, **__: pytest.fail("it is there"))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9.pth").symlink_to(file)
    assert load_network(SMALL, "default").weights == f"COCO_V1, sha256 {checksum}"


def test_detectors_without_regions_and_unknown_ones_are_refused():
    for name in ("ssd300_vgg16", "retinanet_resnet50_fpn", "fcos_resnet50_fpn"):
        with pytest.raises(UserError, match=f"{name} has no RoI heads.*no features.*fasterrcnn_resnet50_fpn"):
            load_network(name, "random")
    with pytest.raises(
        UserError, match=r"Unknown detector 'fasterrcnn_resnet50'.*Did you mean 'fasterrcnn_resnet50_fpn'"
    ):
        load_network("fasterrcnn_resnet50", "random")
    assert {"maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn", SMALL} <= set(usable_detectors())


class Trap:
    """Loading it with pickle would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_weights_that_do_not_fit_are_refused(network, state):
    def refused(content: dict, match: str) -> None:
        with pytest.raises(UserError, match=rf"own\.pth does not fit the detector {SMALL}: {match}"):
            weights._fill(network.model, content, SMALL, Path("own.pth"))

    refused(state | {"extra.weight": torch.zeros(1)}, r"it has besides extra\.weight\.")
    short = {name: value for name, value in state.items() if not name.startswith("rpn.")}
    refused(short, r"it lacks rpn\.head\.conv\.0\.0\.weight.* and 3 more")
    refused(state | {"roi_heads.box_head.fc6.bias": torch.zeros(3)}, r".*fc6\.bias.*\[3\]")


def test_files_that_hold_something_else_are_refused(tmp_path):
    def refused(content: object, match: str) -> None:
        torch.save(content, tmp_path / "bad.pth")
        with pytest.raises(UserError, match=rf"bad\.pth .*{match}"):
            load_network(SMALL, str(tmp_path / "bad.pth"))

    refused({"conv.weight": torch.zeros(1)}, r"no weights of a detector.*begins with conv\.weight")
    refused([1, 2], "no state dict")
    refused({"model": {"a": 1}}, "no state dict")
    (tmp_path / "text.pth").write_text("not weights")
    with pytest.raises(UserError, match=r"text\.pth is no file of weights"):
        load_network(SMALL, str(tmp_path / "text.pth"))
    with pytest.raises(UserError, match=r"No weights 'nothing\.pth'.*default, random, COCO_V1"):
        load_network(SMALL, "nothing.pth")
    with pytest.raises(UserError, match=r"No weights 'randon'\. Did you mean 'random'"):
        load_network(SMALL, "randon")


def test_no_code_in_a_file_is_run(tmp_path):
    (tmp_path / "trap.pth").write_bytes(pickle.dumps({"model": Trap(tmp_path / "sprung")}, protocol=2))
    with pytest.raises(UserError, match=r"trap\.pth is no file of weights that can be read safely"):
        load_network(SMALL, str(tmp_path / "trap.pth"))
    torch.save({"model": Trap(tmp_path / "sprung")}, tmp_path / "trap.pth")
    with pytest.raises(UserError, match=r"trap\.pth is no file of weights that can be read safely"):
        load_network(SMALL, str(tmp_path / "trap.pth"))
    assert not (tmp_path / "sprung").exists()
