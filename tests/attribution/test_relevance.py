"""Does GAE follow the original's rules, without its accidents?"""

from dataclasses import replace

import pytest
import torch

from lit_attn.attribution.gradcam import grad_cam, weighted_heads
from lit_attn.attribution.heard import read
from lit_attn.attribution.layers import added, backwards
from lit_attn.attribution.lrp import partial_lrp, positive_lrp, transformer_attribution
from lit_attn.attribution.odam import min_max
from lit_attn.attribution.plan import Event, Plan, Target
from lit_attn.attribution.raw import of_last_maps, raw_attention
from lit_attn.attribution.relevance import cross_update, gae, normalized, positive, positive_relevance
from lit_attn.attribution.rollout import crossed_rollout, rollout_row
from lit_attn.errors import UserError
from tests.attribution.golden_streams import blocks, detr, lxmert
from tests.reference.attribution import one_stream, random_weights, record

VARIANTS = {
    "ours_no_lrp": {},
    "ours_no_lrp_no_norm": {"normalize": False},
    "ablation_no_self_in_10": {"through_self": False},
    "ours_with_lrp": {"fuse": positive_relevance},
    "ours_with_lrp_no_normalization": {"fuse": positive_relevance, "normalize": False},
}
ATOL = 1e-15


def close(found, expected, atol=ATOL):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol, equal_nan=True)


def test_each_rule_equals_the_original(golden):
    arrays = golden("attribution/gae_rules.npz")
    heard = read(
        Plan(((Event("s", "q", "x"),),), Target("s", 3)),
        [record("x", arrays["avg_heads/attn"].unsqueeze(0), streams=("s", "q"))],
        [arrays["avg_heads/grad"].unsqueeze(0)],
        strict_rows=False,
    )
    close(positive(next(iter(heard)))[0], arrays["avg_heads/out"])
    close(grad_cam(heard)[0, 5:], arrays["gradcam/out"][3])
    own, other, fused = (arrays[name].unsqueeze(0) for name in ("R_ss", "R_qq", "A_sq"))
    close(normalized(own)[0], arrays["rules8_9/R_ss"])
    close(normalized(other)[0], arrays["rules8_9/R_qq"])
    variants = {"default": {}, "no_normalization": {"normalize": False}, "no_self_in_rule_10": {"through_self": False}}
    for name, options in variants.items():
        for rules, empty in (("lxmert", "nan"), ("detr", "wipe")):
            found = cross_update(own, other, fused, empty_rows=empty, **options)
            close(found[0], arrays[f"{rules}_rule10/{name}"])
        close((fused @ arrays["R_qs"])[0], arrays[f"lxmert_rule11/{name}"])


@pytest.mark.parametrize("where", ["zero_row_in_R_ss", "zero_row_in_R_qq"])
def test_a_row_without_relevance_loses_nothing_but_itself(golden, where):
    arrays = golden("attribution/gae_rules.npz")
    own, other = arrays[f"{where}/R_ss"].unsqueeze(0), arrays[f"{where}/R_qq"].unsqueeze(0)
    fused = arrays["A_sq"].unsqueeze(0)
    for empty, name in (("safe", "safe_rule10"), ("wipe", "detr_rule10"), ("nan", "lxmert_rule10")):
        close(cross_update(own, other, fused, empty_rows=empty)[0], arrays[f"{where}/{name}"])
    assert arrays[f"{where}/safe_rule10"].abs().sum() > 0


@pytest.mark.parametrize(
    ("which", "variant"),
    [("top", variant) for variant in VARIANTS]
    + [("second", variant) for variant in VARIANTS if "with_lrp" not in variant],
)
def test_lxmert_equals_the_original(golden, which, variant):
    arrays = golden("attribution/lxmert.npz")
    heard = lxmert(arrays, which, relevance=True)
    found = blocks(heard, gae(heard, **VARIANTS[variant]))
    found["text", "text"][0, 0] = 0  # as the original's code leaves it
    for (rows, columns), value in found.items():
        close(value, arrays[f"{which}/{variant}/R_{rows[0]}_{columns[0]}"])


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "ours_with_lrp_no_normalization"])
def test_detr_equals_the_original(golden, variant):
    arrays = golden("attribution/detr.npz")
    heard = detr(arrays, relevance=True)
    found = blocks(heard, gae(heard, empty_rows="wipe", **VARIANTS[variant]))
    for (rows, columns), name in {
        ("queries", "image"): "R_q_i",
        ("queries", "queries"): "R_q_q",
        ("image", "image"): "R_i_i",
    }.items():
        if f"relevance/{variant}/{name}" in arrays:
            close(found[rows, columns], arrays[f"relevance/{variant}/{name}"])
    close(found["queries", "image"][int(arrays["query"])], arrays[f"relevance/{variant}"])


def test_baselines_on_two_streams_equal_the_original(golden):
    for heard, arrays, key, streams in (
        (
            lxmert(golden("attribution/lxmert.npz"), relevance=True),
            golden("attribution/lxmert.npz"),
            "top",
            ("text", "image"),
        ),
        (detr(golden("attribution/detr.npz"), relevance=True), golden("attribution/detr.npz"), "relevance", ("image",)),
    ):
        for name, method in (("raw_attn", raw_attention), ("attn_gradcam", grad_cam), ("rollout", crossed_rollout)):
            found = method(heard)[0]
            for stream in streams:
                own = found[heard.layout.streams[stream]].clone()
                if stream == "text":
                    own[0] = 0
                expected = arrays[f"{key}/{name}/R_t_{stream[0]}"][0] if key == "top" else arrays[f"{key}/{name}"]
                close(own, expected)


def test_partial_lrp_and_t_attr_on_two_streams_equal_the_original(golden):
    """The original scales partial LRP over the whole map; T-Attr is the last cross map, and text accumulates."""
    arrays = golden("attribution/lxmert.npz")
    heard = lxmert(arrays, relevance=True)
    image = heard.layout.streams["image"]
    cross = next(one for one in heard if one.event.site == "x_ti.2")
    close(min_max(positive_lrp(cross))[0, 0], arrays["top/partial_lrp/R_t_i"][0])
    close(partial_lrp(heard)[0, image], positive_lrp(cross)[0, 0])
    close(of_last_maps(heard, positive_relevance)[0, image], arrays["top/transformer_att/R_t_i"][0])
    own = tuple(tuple(one for one in group if one.event.query == one.event.key == "text") for group in heard.groups)
    text = replace(heard, groups=tuple(group for group in own if group))
    row = backwards(added(text, positive_relevance), text.one_hot())[0, heard.layout.streams["text"]]
    row[0] = 0
    close(row, arrays["top/transformer_att/R_t_t"][0])
    arrays = golden("attribution/detr.npz")
    heard = detr(arrays, relevance=True)
    image = heard.layout.streams["image"]
    close(of_last_maps(heard, positive_relevance)[0, image], arrays["relevance/transformer_att"])
    last = positive_lrp(list(heard)[-1])
    close(min_max(last)[0, int(arrays["query"])], arrays["relevance/partial_lrp"])


def test_visualbert_equals_the_original(golden):
    """Its own entry is set to 0 there; Grad-CAM and partial LRP are scaled over the whole map."""
    arrays = golden("attribution/visualbert.npz")
    row = int(arrays["target_row"])
    maps = [arrays[name].unsqueeze(1) for name in ("attn", "grad", "lrp")]
    heard = one_stream(*maps, row=row)
    last = list(heard)[-1]
    found = {
        "gae": heard.target_row(gae(heard))[0],
        "raw_attn": raw_attention(heard)[0],
        "transformer_attribution": transformer_attribution(heard)[0],
        "rollout_start0": rollout_row(heard, normalize=False)[0],
        "rollout_start1": rollout_row(heard, normalize=False, start=1)[0],
        "partial_lrp": min_max(last.relevance.mean(1))[0, row],  # with its sign, unlike elsewhere
        "attn_gradcam": min_max(weighted_heads(last))[0, row],
    }
    for name, value in found.items():
        value = value.clone()
        value[row] = 0
        close(value, arrays[name], 1e-14)


def test_batches_and_padding_change_nothing():
    """Two streams of different lengths; gradients of padding are whatever they are."""
    text = torch.arange(5) < torch.tensor([5, 2, 3])[:, None]
    image = torch.arange(7) < torch.tensor([3, 7, 1])[:, None]
    masks = {"t": text, "i": image}
    events = ("t", "t"), ("i", "i"), ("t", "i"), ("i", "t"), ("t", "t")
    groups = [(0,), (1,), (2, 3), (4,)]
    plan = Plan(tuple(tuple(Event(*events[i], f"{i}") for i in group) for group in groups), Target("t", (1, 0, 2)))
    weights = [
        random_weights(3, 2, masks[q].shape[1], masks[k].shape[1], mask=masks[k][:, None, None]) for q, k in events
    ]
    gradients = [torch.randn_like(one) for one in weights]

    def heard(sample=None):
        def cut(i, value):
            q, k = events[i]
            return value[sample : sample + 1, :, : masks[q][sample].sum(), : masks[k][sample].sum()]

        if sample is None:
            records = [
                record(
                    f"{i}", w, streams=events[i], query_mask=masks[events[i][0]], key_mask=masks[events[i][1]][:, None]
                )
                for i, w in enumerate(weights)
            ]
            return read(plan, records, gradients)
        records = [record(f"{i}", cut(i, w), streams=events[i]) for i, w in enumerate(weights)]
        own = replace(plan, target=Target("t", plan.target.row[sample]))
        return read(own, records, [cut(i, g) for i, g in enumerate(gradients)])

    together = heard()
    for method in (lambda h: h.target_row(gae(h)), grad_cam, crossed_rollout, raw_attention):
        found = method(together)
        for sample in range(3):
            alone = method(heard(sample))
            torch.testing.assert_close(found[sample, together.layout.mask[sample]], alone[0], rtol=0, atol=1e-14)
            assert not found[sample, ~together.layout.mask[sample]].any()


def test_methods_that_need_gradients_say_so():
    heard = one_stream(random_weights(2, 1, 1, 3, 3))
    with pytest.raises(UserError, match="needs gradients, and none were given for site '0'"):
        gae(heard)
    with pytest.raises(UserError, match="needs LRP relevance"):
        partial_lrp(heard)
