"""Do the measures of faithfulness measure what they say? Perturbation, segmentation, and the known cause."""

import itertools

import numpy as np
import pytest
import torch

from lit_attn.attribution import truth
from lit_attn.attribution.coco import Instances, coco_scores
from lit_attn.attribution.odam import odam, shown
from lit_attn.attribution.perturbation import LXMERT_STEPS, kept, kept_count, perturbation
from lit_attn.attribution.segmentation import as_bytes, enlarged, otsu, otsu_masks, overlap, pixel_ap, sweep
from lit_attn.errors import UserError
from tests.attribution.test_lrp import published
from tests.reference import attribution as slow

# Perturbation


def test_numbers_kept_equal_the_original_and_exact_arithmetic(golden):
    arrays = golden("attribution/perturbation.npz")
    assert tuple(arrays["steps"].tolist()) == LXMERT_STEPS
    images = arrays["visualbert/steps_image"].tolist()
    for n in range(101):
        for i, step in enumerate(LXMERT_STEPS):
            assert kept_count(n, step, exact=False) == arrays["counts/lxmert"][n, i]
            assert kept_count(n, step) == arrays["counts/lxmert_exact"][n, i]
        for i, step in enumerate(images):
            assert kept_count(n, step, exact=False) == arrays["counts/visualbert_image"][n, i]
    assert kept_count(10, 0.8) == 2
    assert kept_count(10, 0.8, exact=False) == 1


@pytest.mark.parametrize("test", ["positive", "negative"])
@pytest.mark.parametrize("modality", ["text", "image"])
def test_curves_equal_the_original(golden, modality, test):
    arrays = golden("attribution/perturbation.npz")
    scores = arrays[f"score_{modality}"].unsqueeze(0)
    mask = torch.ones_like(scores, dtype=torch.bool)
    always = torch.zeros_like(mask)
    if modality == "text":
        always[:, [0, -1]] = True  # CLS and SEP
    expected = [sorted(i for i in row if i >= 0) for row in arrays[f"{modality}/{test}/kept"].tolist()]
    values = iter(arrays[f"{modality}/{test}/accuracy"])
    seen = []

    def forward(keep):
        seen.append(keep[0].nonzero()[:, 0].tolist())
        return next(values).reshape(1)

    curve = perturbation(forward, scores, mask, test, always=always, exact=False)
    assert seen == expected
    torch.testing.assert_close(curve.area[0], arrays[f"{modality}/{test}/auc_trapezoid"], rtol=1e-12, atol=0)


@pytest.mark.parametrize("test", ["positive", "negative"])
@pytest.mark.parametrize("modality", ["text", "image"])
def test_visualbert_keeps_what_the_original_keeps(golden, modality, test):
    arrays = golden("attribution/perturbation.npz")
    length = int(arrays["visualbert/text_length"])
    scores = arrays["visualbert/score"]
    scores = (scores[:length] if modality == "text" else scores[length:]).unsqueeze(0)
    mask = torch.ones_like(scores, dtype=torch.bool)
    always = torch.zeros_like(mask)
    if modality == "text":
        always[:, [0, -2, -1]] = True
    for step, row in zip(
        arrays[f"visualbert/steps_{modality}"].tolist(),
        arrays[f"visualbert/{modality}/{test}/kept"].tolist(),
        strict=True,
    ):
        found = kept(scores, mask, test, step, always=always, exact=False)[0].nonzero()[:, 0].tolist()
        assert found == sorted(i for i in row if i >= 0)


def test_a_right_explanation_falls_fast_and_padding_is_never_kept():
    """The score is how much of a known cause is left."""
    cause = torch.tensor([[1.0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 9, 9]])
    mask = torch.arange(7) < torch.tensor([[7], [5]])

    def forward(keep):
        assert not (keep & ~mask).any()
        return (cause * keep).sum(-1) / (cause * mask).sum(-1)

    right = {test: perturbation(forward, cause, mask, test).area for test in ("positive", "negative")}
    assert (right["positive"] < 0.3).all()
    assert (right["negative"] > 0.7).all()
    wrong = perturbation(forward, -cause, mask, "positive").area
    assert (wrong > right["positive"] + 0.3).all()


def test_bad_steps_are_named():
    with pytest.raises(UserError, match="from 0 to 1 and rising; got"):
        perturbation(lambda keep: keep.sum(-1), torch.ones(1, 3), torch.ones(1, 3).bool(), "positive", steps=(0.5, 0.1))


# Segmentation


def test_thresholds_and_masks_equal_the_original(golden):
    arrays = golden("attribution/otsu.npz")
    names = sorted({name.split("/")[0] for name in arrays} - {"post"})
    assert len(names) == 14
    for name in names:
        image = arrays[f"{name}/uint8"].unsqueeze(0)
        assert otsu(image).item() == arrays[f"{name}/otsu"], name
        assert otsu(image).item() == slow.otsu(image.flatten().tolist()), name
        if f"{name}/float" in arrays:
            maps = arrays[f"{name}/float"].unsqueeze(0)
            assert torch.equal(as_bytes(maps), image)
            assert torch.equal(otsu_masks(maps)[0], arrays[f"{name}/mask"] > 0)
            assert torch.equal(otsu_masks(maps, 0.3)[0], arrays[f"{name}/mask_0.3"] > 0)


def unpacked(packed, width):
    return torch.from_numpy(np.unpackbits(packed.numpy(), axis=-1)[..., :width]).bool()


def test_enlarged_masks_equal_the_original(golden):
    arrays = golden("attribution/otsu.npz")
    sizes = [tuple(arrays[f"post/{name}"].tolist()) for name in ("padded_size", "original_size")]
    found = enlarged(arrays["post/mask_lowres"] > 0, *sizes)
    assert torch.equal(found, unpacked(arrays["post/mask"], sizes[1][1]))
    arrays = golden("attribution/detr_masks.npz")
    sizes = [tuple(arrays[name].tolist()) for name in ("padded_size", "original_size")]
    for name in ("ours_no_lrp", "raw_attn", "attn_gradcam", "rollout", "transformer_att", "partial_lrp"):
        images = arrays[f"{name}/map_uint8"]
        assert torch.equal(otsu(images), arrays[f"{name}/otsu"].long())
        masks = images > otsu(images)[:, None, None]
        assert torch.equal(masks, arrays[f"{name}/mask_lowres"] > 0)
        assert torch.equal(enlarged(masks, *sizes), unpacked(arrays[f"{name}/mask_final_packed"], sizes[1][1]))


def test_a_perfect_map_overlaps_at_every_threshold():
    right = torch.zeros(2, 5, 7, dtype=torch.bool)
    right[0, 1:3, 2:6] = True
    right[1, 4, 0] = True
    maps = right.double() * 3 - 1
    assert sweep(maps, right, (0.1, 0.5, 0.9)).eq(1).all()
    assert sweep(-maps, right, (0.1, 0.5)).eq(0).all()
    assert pixel_ap(maps, right).eq(1).all()
    assert overlap(right[:1], right[1:]).item() == 0


def test_coco_scores_of_right_and_wrong_masks():
    pytest.importorskip("pycocotools", reason="pip install 'lit_attn[coco]' to run it")
    masks = torch.zeros(2, 101, 103, dtype=torch.bool)
    masks[0, :50, :50], masks[1, 60:99, 60:99] = True, True
    real = [Instances(masks, (1, 2)), Instances(masks[:1], (2,))]
    right = coco_scores([Instances(masks, (1, 2), (0.9, 0.8)), Instances(masks[:1], (2,), (0.7,))], real)
    assert right["AP"] == pytest.approx(1)
    assert right["AP_S"] == -1, "nothing is that small"
    half = masks[:1].clone()
    half[:, :, 25:] = False  # an overlap of one half passes 7 of 16 thresholds
    found = coco_scores([Instances(half, (1,), (0.9,))], [Instances(masks[:1], (1,))])
    assert found["AR"] == pytest.approx(7 / 16)


def test_a_missing_pycocotools_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pycocotools", None)
    with pytest.raises(UserError, match=r"lit_attn\[coco\]"):
        coco_scores([], [])


# The known cause


def test_measures_of_a_cause_by_hand():
    scores = torch.tensor([[4.0, 3.0, -2.0, 3.0, 99.0], [1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    right = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]]).bool()
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
    nan = pytest.approx(float("nan"), nan_ok=True)
    assert truth.mass(scores, right, mask).tolist() == [pytest.approx(0.7), pytest.approx(0.4), nan]
    assert truth.pointing(scores, right, mask).tolist() == [1.0, pytest.approx(0.4), nan]
    found = truth.average_precision(scores, right, mask).tolist()
    assert found == [pytest.approx((1 + 2 / 3) / 2), pytest.approx(0.4), nan]
    assert truth.mass(-scores[:1].abs(), right[:1], mask[:1]).isnan().all(), "nothing is positive"


def test_average_precision_equals_a_loop():
    scores = torch.randint(0, 5, (7, 11)).double()
    right = torch.rand(7, 11) < 0.4
    right[:, 3] = True
    found = truth.average_precision(scores, right, torch.ones_like(right))
    expected = [slow.average_precision(s, t) for s, t in zip(scores.tolist(), right.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(expected)


def test_chance_is_the_mean_over_all_orders():
    right = torch.tensor([[True, True, False, False, False]])
    orders = torch.tensor(list(itertools.permutations(range(5)))).double()
    expanded = right.expand(len(orders), -1)
    chance = truth.chance(right, torch.ones_like(right))
    for name in ("mass", "pointing", "average_precision"):
        found = getattr(truth, name)(orders, expanded, torch.ones_like(expanded)).mean()
        assert found.item() == pytest.approx(chance[name].item())
    more = truth.chance(torch.nn.functional.pad(right, (0, 2), value=True), torch.arange(7)[None] < 5)
    assert more["average_precision"].item() == pytest.approx(chance["average_precision"].item())


# ODAM


def test_odam_equals_the_original(golden):
    arrays = golden("attribution/odam.npz")
    size = tuple(arrays["image_size"].tolist())
    for a, (level, row, column, label) in enumerate(arrays["instances"].tolist()):
        features = arrays[f"fm{level}"].double().requires_grad_()
        convolve = torch.nn.functional.conv2d
        weights = {name: arrays[name].double() for name in arrays if name.endswith(("_weight", "_bias"))}
        hidden = convolve(features, weights["conv1_weight"], weights["conv1_bias"], padding=1).relu()
        score = convolve(hidden, weights["cls_weight"], weights["cls_bias"], padding=1).sigmoid()[0, label, row, column]
        box = convolve(hidden, weights["reg_weight"], weights["reg_bias"], padding=1)[0, :, row, column]
        for o, target in enumerate((score, *box)):
            assert target.item() == pytest.approx(arrays["outputs"][a, o].item())
            found = odam(target, features)
            torch.testing.assert_close(found[0], arrays[f"inst{a}/out{o}/raw"].double(), rtol=0, atol=1e-10)
            torch.testing.assert_close(shown(found, size)[0], arrays["odam"][a, o].double(), rtol=0, atol=1e-9)


def test_odam_of_lxmert_equals_its_equation(golden):
    arrays, expected = golden("attribution/lxmert.npz"), golden("attribution/odam.npz")
    net = published("LxmertForQuestionAnswering", "lxmert")
    kept = {}
    net.lxmert.encoder.visn_fc.register_forward_hook(lambda *given: kept.update(image=given[2]))
    net.lxmert.embeddings.register_forward_hook(lambda *given: kept.update(text=given[2]))
    inputs = {name.removeprefix("input/"): arrays[name] for name in arrays if name.startswith("input/")}
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
    target = net(**inputs).question_answering_score[0, int(arrays["answer_top"])]
    for name in ("image", "text"):
        found = odam(target, kept[name], channels=-1)[0]
        torch.testing.assert_close(found, expected[f"lxmert/{name}"], rtol=1e-8, atol=1e-12)


def test_a_target_from_elsewhere_is_refused():
    with pytest.raises(UserError, match="does not depend on these features"):
        odam(torch.ones(3, requires_grad=True).sum(), torch.rand(1, 2, 3, 3, requires_grad=True))
