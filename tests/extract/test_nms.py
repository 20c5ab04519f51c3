"""Are our box operators those of the definitions, and does torchvision get them only where it needs them?"""

import importlib

import pytest
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.extract.nms import nms, register
from lit_attn.extract.roi_align import roi_align
from tests.reference import detection as reference

boxes_module = importlib.import_module("torchvision.ops.boxes")
pooling_module = importlib.import_module("torchvision.ops.roi_align")


def random_boxes(count: int, area: float = 30.0) -> torch.Tensor:
    corner = torch.rand(count, 2, dtype=torch.float64) * area
    return torch.cat([corner, corner + torch.rand(count, 2, dtype=torch.float64) * area / 2 + 0.1], 1)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", [0, 1, 37, 307])
def test_nms_equals_the_definition(count, threshold):
    boxes, scores = random_boxes(count), torch.rand(count, dtype=torch.float64)
    assert nms(boxes, scores, threshold).tolist() == reference.nms(boxes, scores, threshold)


whole = st.integers(0, 7)


@given(
    st.lists(st.tuples(whole, whole, whole, whole, st.integers(0, 2)), max_size=23), st.sampled_from([0.2, 0.5, 0.75])
)
@settings(max_examples=60, deadline=None)
def test_nms_with_equal_scores_equal_boxes_and_boxes_without_area(rows, threshold):
    corners = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d, _ in rows]
    boxes = torch.tensor(corners, dtype=torch.float64).view(-1, 4)
    scores = torch.tensor([row[-1] for row in rows], dtype=torch.float64)
    assert nms(boxes, scores, threshold).tolist() == reference.nms(boxes, scores, threshold)


def test_of_equal_scores_the_earlier_box_stays_and_single_precision_works():
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [0, 0, 10, 10]])
    assert nms(boxes, torch.tensor([0.5, 0.5, 0.9, 0.5]), 0.5).tolist() == [2, 0]
    assert nms(boxes, torch.tensor([0.5, 0.6, 0.9, 0.5]), 0.5).tolist() == [2, 1]


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, 3, -1])
def test_roi_align_equals_the_definition(ratio, aligned):
    maps = torch.randn(2, 3, 11, 13, dtype=torch.float64)
    boxes = random_boxes(17) - 3.0  # at scale 0.5, some leave the map on each side
    rois = torch.cat([torch.randint(0, 2, (17, 1)).double(), boxes], 1)
    found = roi_align(maps, rois, 0.5, 5, 2, ratio, aligned)
    expected = reference.roi_align(maps, rois, 0.5, 5, 2, ratio, aligned)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_roi_align_of_no_boxes_of_boxes_without_area_and_with_gradients():
    maps = torch.randn(1, 3, 11, 13, dtype=torch.float64, requires_grad=True)
    assert roi_align(maps, torch.zeros(0, 5, dtype=torch.float64), 0.5, 7, 5, 2, False).shape == (0, 3, 7, 5)
    point = torch.tensor([[0.0, 4, 4, 4, 4]], dtype=torch.float64)
    assert roi_align(maps, point, 0.5, 7, 5, -1, True).abs().max() == 0
    rois = torch.tensor([[0.0, 1, 2, 9, 7], [0, 3, 3, 20, 21]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda maps: roi_align(maps, rois, 0.5, 3, 2, 2, False), (maps,), fast_mode=True)


def test_without_the_extension_torchvision_runs_and_needs_no_compiler(monkeypatch):
    monkeypatch.setattr(boxes_module, "nms", boxes_module.nms)
    monkeypatch.setattr(torchvision.ops, "nms", torchvision.ops.nms)
    monkeypatch.setattr(pooling_module, "_roi_align", pooling_module._roi_align)
    monkeypatch.setattr(torchvision.extension, "_has_ops", lambda: False)
    monkeypatch.setattr(boxes_module, "nms", None)
    monkeypatch.setattr(torch, "compile", lambda *_, **__: pytest.fail("a compiler was asked for"))
    assert register()
    assert not register(), "the second time nothing is left to do"
    boxes, scores = random_boxes(23), torch.rand(23, dtype=torch.float64)
    kinds = torch.arange(23) % 3
    expected = [k for kind in range(3) for k in _of_kind(boxes, scores, kinds, kind)]
    assert sorted(torchvision.ops.batched_nms(boxes, scores, kinds, 0.3).tolist()) == sorted(expected)
    assert torchvision.ops.nms is nms
    if not pooling_module._has_ops():
        maps = torch.randn(1, 3, 11, 13, dtype=torch.float64)
        pooled = torchvision.ops.roi_align(maps, [boxes], (5, 2), 0.5, 2)
        rois = torch.cat([torch.zeros(23, 1).double(), boxes], 1)
        torch.testing.assert_close(pooled, reference.roi_align(maps, rois, 0.5, 5, 2, 2, False))


def _of_kind(boxes: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor, kind: int) -> list[int]:
    places = (kinds == kind).nonzero()[:, 0]
    return places[reference.nms(boxes[places], scores[places], 0.3)].tolist()


def test_a_working_torchvision_is_left_alone(monkeypatch):
    theirs = object()
    monkeypatch.setattr(boxes_module, "nms", theirs)
    monkeypatch.setattr(pooling_module, "_roi_align", theirs)
    monkeypatch.setattr(torchvision.extension, "_has_ops", lambda: True)
    assert not register()
    assert boxes_module.nms is theirs
    assert pooling_module._roi_align is theirs
