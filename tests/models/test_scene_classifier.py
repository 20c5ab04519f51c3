"""Does the judge of pictures bind colours to kinds cell by cell, and say which are absent?"""

import torch

from lit_attn.models.scene_classifier import FEATURES, SceneClassifier

KINDS, COLORS = 7, 5


def judge() -> SceneClassifier:
    torch.manual_seed(2)
    return SceneClassifier(KINDS, COLORS).double().eval()


def test_shapes_are_those_that_are_promised():
    found = judge()(torch.rand(3, 3, 64, 64).double() * 2 - 1)
    assert found.features.shape == (3, FEATURES) == (3, 128)
    assert found.looks.shape == (3, KINDS, COLORS + 1)
    assert found.main.shape == (3, KINDS)


def test_looks_are_a_sum_over_cells_of_kind_times_colour():
    net, image = judge(), torch.randn(2, 3, 32, 24).double()
    seen = net.trunk(image)
    kinds, colors = net.kind(seen), net.color(seen).softmax(1)
    found = net(image)
    assert seen.shape[2:] == (8, 6)
    for b in range(2):
        for kind in range(KINDS):
            for color in range(COLORS):
                total = sum(kinds[b, kind, y, x].exp() * colors[b, color, y, x] for y in range(8) for x in range(6))
                torch.testing.assert_close(found.looks[b, kind, color], total.log())
        mean = torch.stack([seen[b, :, y, x] for y in range(8) for x in range(6)]).mean(0)
        torch.testing.assert_close(found.features[b], mean)
        torch.testing.assert_close(found.looks[b, :, -1], net.absent(mean))
        there = kinds[b].flatten(1).exp().sum(1).log()
        torch.testing.assert_close(found.main[b], net.main(mean) + there)


def test_a_batch_is_judged_as_its_pictures_one_by_one():
    net, image = judge(), torch.randn(3, 3, 32, 32).double()
    together = net(image)
    for i in range(3):
        for one, other in zip(net(image[i : i + 1]), together, strict=True):
            torch.testing.assert_close(one[0], other[i])


def test_extreme_scores_stay_finite():
    net = judge().float()
    with torch.no_grad():
        net.kind.weight.mul_(1e4)
        net.color.weight.mul_(1e4)
    image = torch.randn(2, 3, 32, 32, requires_grad=True)
    found = net(image)
    assert all(part.isfinite().all() for part in found)
    found.looks.sum().backward()
    assert image.grad.isfinite().all()
