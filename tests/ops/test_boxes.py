"""Is the geometry of boxes that of the published code?"""

import math

import pytest
import torch

from lit_attn.ops.boxes import pair_geometry, sinusoids


@pytest.mark.parametrize("case", ["random", "degenerate", "spec"])
def test_equals_the_original(golden, case):
    arrays = golden("ort/box_embedding.npz")
    geometry = pair_geometry(arrays[f"{case}_boxes"].double())
    torch.testing.assert_close(geometry, arrays[f"{case}_raw_f64"], rtol=0, atol=1e-12)
    torch.testing.assert_close(sinusoids(geometry), arrays[f"{case}_trig_f64"], rtol=0, atol=1e-9)


def test_equals_a_loop_over_pairs():
    boxes = torch.rand(2, 5, 4, dtype=torch.float64)
    found = pair_geometry(boxes)
    for b in range(2):
        for m in range(5):
            for n in range(5):
                (x1, y1, x2, y2), (u1, v1, u2, v2) = boxes[b, m].tolist(), boxes[b, n].tolist()
                w, h = x2 - x1 + 1, y2 - y1 + 1
                expected = [
                    math.log(max(abs((x1 + x2) / 2 - (u1 + u2) / 2) / w, 1e-3)),
                    math.log(max(abs((y1 + y2) / 2 - (v1 + v2) / 2) / h, 1e-3)),
                    math.log(w / (u2 - u1 + 1)),
                    math.log(h / (v2 - v1 + 1)),
                ]
                assert found[b, m, n].tolist() == pytest.approx(expected, abs=1e-12)


def test_the_numbers_of_the_specification():
    boxes = torch.tensor([[[0, 0, 0.5, 0.5], [0.25, 0.25, 0.75, 1]]], dtype=torch.float64)
    geometry = pair_geometry(boxes)
    assert geometry[0, 0, 1].tolist() == pytest.approx([-1.7918, -1.3863, 0, -0.1542], abs=5e-5)
    assert geometry[0, 0, 0].tolist() == pytest.approx([-6.9078, -6.9078, 0, 0], abs=5e-5)
    embedding = sinusoids(geometry)[0, 0, 1]
    assert embedding[:4].tolist() == pytest.approx([0.10497, -0.15898, -0.43187, -0.76428], abs=5e-5)
    assert embedding[8:10].tolist() == pytest.approx([-0.38883, -0.94273], abs=5e-5)
    assert embedding[32:34].tolist() == pytest.approx([-0.99448, 0.98728], abs=5e-5)


def test_no_boxes_have_no_geometry():
    assert sinusoids(pair_geometry(torch.zeros(3, 0, 4))).shape == (3, 0, 0, 64)


def test_swapped_corners_stay_finite():
    assert pair_geometry(torch.tensor([[[1.0, 1.0, 0.0, 0.0], [0.2, 0.2, 0.4, 0.4]]])).isfinite().all()
