"""Are regions what torchvision detects, does each feature belong to its box, and are there always enough of them?"""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.ops import box_iou

from lit_attn.data.regions import read_npz, write_npz
from lit_attn.errors import UserError
from lit_attn.extract.colors import COLORS, color_of_boxes
from lit_attn.extract.detector import Detector, Selection, choose_device, fill_up, find
from lit_attn.extract.weights import Network, load_network
from tests.reference import detection as reference


def detector(network: Network, *selection: float, size: int = 64) -> Detector:
    """One at a time: it sets its limits in the network."""
    return Detector(network, Selection(*selection), size)


def pixels(picture: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255


def test_detections_are_torchvisions_own(network, photo):
    detect = detector(network, 1, 23, 0.1)
    regions = detect(photo, "x")
    with torch.inference_mode():
        (theirs,) = detect.model([pixels(photo)])
    assert len(regions) == 23, "the limit holds"
    np.testing.assert_allclose(regions.boxes, theirs["boxes"], atol=1e-4)
    np.testing.assert_allclose(regions.objects_conf, theirs["scores"], atol=1e-6)
    np.testing.assert_array_equal(regions.objects, theirs["labels"] - 1)
    assert regions.object_names == tuple(network.class_names[i] for i in regions.objects)
    assert len(set(regions.objects.tolist())) > 1


def test_a_feature_is_that_of_the_final_box(network, photo):
    """Pooled by the slow definition from the map that the size of the box asks for (FPN, equation 1)."""
    detect = detector(network, 13, 13, 0.1)
    model = detect.model
    with torch.inference_mode():
        resized, _ = model.transform([pixels(photo)])
        found = find(model, resized, detect.selection)
        maps = list(model.backbone(resized.tensors).values())
        for box, feature in list(zip(found.boxes, found.features, strict=True))[:5]:
            size = math.sqrt(float((box[2] - box[0]) * (box[3] - box[1])))
            level = min(max(math.floor(4 + math.log2(size / 224) + 1e-6), 2), 5) - 2
            roi = torch.cat([torch.zeros(1), box])[None]
            pooled = reference.roi_align(maps[level], roi, 1 / (4 * 2**level), 7, 7, 2, False)
            expected = model.roi_heads.box_head(pooled)[0]
            torch.testing.assert_close(feature, expected, rtol=1e-3, atol=1e-3)
    assert found.features.std(0).mean() > 0.1, "features of other boxes differ"


def test_too_few_detections_are_filled_up_with_what_the_detector_knows(network, photo):
    detected = detector(network, 1, 36, 0.2)(photo, "x")
    filled = detector(network, 36, 36, 0.2)(photo, "x")
    assert 0 < len(detected) < 36 == len(filled)
    np.testing.assert_array_equal(filled.boxes[: len(detected)], detected.boxes)
    np.testing.assert_allclose(filled.features[: len(detected)], detected.features, rtol=1e-4, atol=1e-4)
    crowded = detector(network, 140, 140, 0.2)(photo, "x")  # fillers must overlap, and some beat detections
    assert (np.diff(crowded.objects_conf) <= 0).all(), "most confident first"
    assert (filled.objects >= 0).all()
    assert (filled.objects < len(network.class_names)).all()
    assert ((filled.boxes >= 0) & (filled.boxes <= [110, 70, 110, 70])).all()
    assert (filled.boxes[:, 2:] > filled.boxes[:, :2]).all()
    nothing = detector(network, 7, 9, 1.0)(photo, "x")
    assert len(nothing) == 7, "with no detection at all just as many as must be"


def test_fill_up_takes_confident_boxes_that_overlap_little_first():
    boxes = torch.tensor(
        [[0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10], [20, 0, 30, 10], [0, 0, 10, 6], [40, 0, 50, 10]],
        dtype=torch.float64,
    )  # overlaps with the first: 0.9 and 0.6; the third and fourth are the same
    confidence = torch.tensor([0.9, 0.8, 0.3, 0.4, 0.7, 0.2])
    orders = [fill_up(boxes, confidence, 1, minimum).tolist() for minimum in range(8)]
    assert orders[:2] == [[0], [0]]
    assert orders[3] == [0, 3, 5], "neither what overlaps a detection nor what overlaps a better filler"
    assert orders[4] == [0, 3, 5, 4], "then what overlaps less"
    assert orders[6] == orders[7] == [0, 3, 5, 4, 1, 2]


@pytest.mark.parametrize("minimum", [1, 11, 47])
def test_fill_up_never_repeats_and_never_passes_the_minimum(minimum):
    corner = torch.rand(43, 2) * 5
    boxes, confidence = torch.cat([corner, corner + 2 + torch.rand(43, 2)], 1), torch.rand(43)
    chosen = fill_up(boxes, confidence, 3, minimum).tolist()
    assert chosen[:3] == [0, 1, 2]
    assert len(set(chosen)) == len(chosen) == min(max(3, minimum), 43)
    if minimum == 11:
        worst = box_iou(boxes[chosen], boxes[chosen]).fill_diagonal_(0)[3:].max()
        assert worst <= 0.9


def test_colours_names_and_the_file(network, photo, tmp_path):
    regions = detector(network, 10, 30, 0.2)(photo, "folder/photo")
    colors, shares = color_of_boxes(np.array(photo), regions.boxes)
    np.testing.assert_array_equal(regions.attributes, colors)
    np.testing.assert_array_equal(regions.attributes_conf, shares)
    assert regions.attribute_names == tuple(COLORS[i] for i in colors)
    assert regions.features.shape == (len(regions), 1024)
    assert (regions.name, regions.width, regions.height) == ("folder/photo", 110, 70)
    write_npz(regions, tmp_path / "a.npz")
    again = read_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(again.features, regions.features)
    assert again.described() == regions.described()
    assert again.described()[0] == f"{regions.attribute_names[0]} {regions.object_names[0]}"


def test_regions_do_not_depend_on_the_pictures_before(network, photo):
    """Torchvision derives the scale of its maps from the first picture it sees, wrongly if that one is narrow."""
    detect = detector(network, 9, 9, 0.2)
    alone = detect(photo, "x")
    narrow = photo.resize((600, 9))
    network.model.roi_heads.box_roi_pool.scales = None  # as in a new process
    first = detect(narrow, "y")
    assert network.model.roi_heads.box_roi_pool.scales == [1 / 4, 1 / 8, 1 / 16, 1 / 32]
    after = detect(photo, "x")
    np.testing.assert_array_equal(after.features, alone.features)
    np.testing.assert_array_equal(after.boxes, alone.boxes)
    np.testing.assert_array_equal(detect(narrow, "y").features, first.features)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5, 40)])
def test_tiny_pictures_have_regions_too(network, photo, shape):
    regions = detector(network, 11, 11, 0.2)(photo.resize(shape), "x")
    assert len(regions) == 11
    assert (regions.boxes <= [*shape, *shape]).all()


@pytest.mark.parametrize("name", ["fasterrcnn_mobilenet_v3_large_320_fpn", "maskrcnn_resnet50_fpn"])
def test_other_detectors(photo, name):
    network = load_network(name, "random")
    regions = Detector(network, Selection(5, 8, 0.2), 64)(photo, "x")
    assert 5 <= len(regions) <= 8
    assert regions.features.shape[1] == 1024
    assert set(regions.object_names) <= set(network.class_names)


def test_a_real_photograph(network, shared_data):
    picture = Image.open(shared_data("coco_mini/images") / "000000358083.jpg").convert("RGB")
    regions = detector(network, 36, 36, 0.2, size=128)(picture, "358083")
    assert len(regions) == 36
    assert (regions.width, regions.height) == picture.size


def test_mistakes_are_named(network, photo, monkeypatch):
    with pytest.raises(UserError, match="minimum of 9 and a maximum of 5"):
        Selection(9, 5)
    with pytest.raises(UserError, match="minimum of 0"):
        Selection(0, 5)
    with pytest.raises(UserError, match=r"between 0 and 1, got 20\.0"):
        Selection(1, 5, 20.0)
    with pytest.raises(UserError, match="at least 1 pixel, got 0"):
        detector(network, 5, 5, size=0)
    with pytest.raises(UserError, match=r"proposes 150 regions .* fewer than the 151"):
        detector(network, 5, 151)
    with pytest.raises(UserError, match="too narrow, 9000 x 1"):
        detector(network, 5, 5)(photo.resize((9000, 1)), "x")
    monkeypatch.setattr(network.model.rpn, "score_thresh", 1.1)
    with pytest.raises(UserError, match="finds no region"):
        detector(network, 5, 5)(photo, "x")
    for name in ("quantum", "cuda:77"):
        with pytest.raises(UserError, match=f"device '{name}' cannot be used"):
            choose_device(name)
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
