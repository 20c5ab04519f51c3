"""Is each information source followed as Cui et al. say?"""

import pytest
import torch

from lit_attn.attribution.heard import Heard, read
from lit_attn.attribution.heterogenous import FUSIONS, heterogenous, heterogenous_row, semantic
from lit_attn.attribution.layers import added
from lit_attn.attribution.plan import Event, Plan, Target
from lit_attn.attribution.relevance import positive
from tests.attribution.golden_streams import blocks, detr, lxmert
from tests.reference import attribution as slow
from tests.reference.attribution import random_weights, record

VARIANTS = {
    "pos": {},
    "full": {"correction": "full"},
    "abs": {"correction": "abs"},
    "pos_noise_rows": {"noise_link": "rows"},
    "pos_noise_global": {"noise_link": "global"},
}


def close(found, expected, atol=1e-14):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_maps(golden, variant):
    expected = golden("attribution/cui.npz")
    heard = lxmert(golden("attribution/lxmert.npz"))
    found = blocks(heard, heterogenous(heard, **VARIANTS[variant]))
    for (rows, columns), name in {
        ("text", "text"): "T_t",
        ("text", "image"): "T_i",
        ("image", "text"): "G_t",
        ("image", "image"): "G_i",
    }.items():
        close(found[rows, columns], expected[f"lxmert/{variant}/{name}"])
    row = heterogenous_row(heard, **VARIANTS[variant])[0]
    close(row[heard.layout.streams["text"]], expected[f"lxmert/{variant}/cls_text"])
    close(row[heard.layout.streams["image"]], expected[f"lxmert/{variant}/cls_image"])

    heard = detr(golden("attribution/detr.npz"))
    found = blocks(heard, heterogenous(heard, **VARIANTS[variant]))
    close(found["queries", "image"], expected[f"detr/{variant}/P"])
    if f"detr/{variant}/Q" in expected:
        close(found["queries", "queries"], expected[f"detr/{variant}/Q"])
        close(found["image", "image"], expected[f"detr/{variant}/encoder_map"])
    row = heterogenous_row(heard, **VARIANTS[variant])[0]
    close(row[heard.layout.streams["image"]], expected[f"detr/{variant}/row"])


def test_logical_inspection(golden):
    """Targets that compare two answers; their gradients follow from those of the two logits."""
    expected = golden("attribution/cui.npz")
    arrays = golden("attribution/lxmert.npz")
    top, second = expected["lxmert/logit_top"], expected["lxmert/logit_second"]
    factors = {
        "logical_difference": (1, -1),
        "logical_difference_swapped": (-1, 1),
        "logical_ratio": (1 / second, -top / second**2),
    }
    for variant, (a, b) in factors.items():
        mixed = dict(arrays)
        for name in arrays:
            if name.startswith("grad_top/"):
                mixed[name] = a * arrays[name] + b * arrays[name.replace("top", "second")]
        heard = lxmert(mixed)
        row = heterogenous_row(heard, "full")[0]
        close(row[heard.layout.streams["image"]], expected[f"lxmert/{variant}/cls_image"])
        close(row[heard.layout.streams["text"]], expected[f"lxmert/{variant}/cls_text"])
    swapped = expected["lxmert/logical_difference_swapped/cls_image"] + expected["lxmert/logical_difference/cls_image"]
    assert swapped.abs().max() > 1e-6, "swapping answers is no mirror"


def test_semantic_interpretation(golden):
    expected = golden("attribution/cui.npz")
    heard = lxmert(golden("attribution/lxmert.npz"))
    found = semantic(heard)[0]
    close(found[heard.layout.streams["text"]], expected["lxmert/semantic/text"])
    close(found[heard.layout.streams["image"]], expected["lxmert/semantic/image"])


SIZES = {"a": 3, "b": 5, "c": 7}
EVENTS = (
    (("a", "a"),),
    (("b", "b"), ("c", "c")),
    (("a", "b"), ("b", "a"), ("a", "c")),
    (("c", "b"),),
    (("a", "a"), ("b", "b")),
    (("a", "c"), ("b", "c")),
)


def three_streams(row: int = 2) -> Heard:
    plan = Plan(
        tuple(tuple(Event(q, k, f"{i}.{j}") for j, (q, k) in enumerate(group)) for i, group in enumerate(EVENTS)),
        Target("a", row),
    )
    records = [
        record(e.site, random_weights(2, 3, SIZES[e.query], SIZES[e.key]), streams=(e.query, e.key)) for e in plan
    ]
    return read(plan, records, [torch.randn_like(one.weights) for one in records])


@pytest.mark.parametrize("correction", ["pos", "full", "abs"])
def test_three_streams_equal_the_equations_and_a_product_of_matrices(correction):
    heard = three_streams()
    found = heterogenous(heard, correction)
    product = torch.eye(15, dtype=torch.float64).expand(2, -1, -1)
    for layer in added(heard, FUSIONS[correction]):
        product = layer.matrix() @ product
    close(found, product, 1e-12)
    close(heterogenous_row(heard, correction), heard.target_row(found), 1e-12)
    for sample in range(2):
        fused = [
            [(m.event.query, m.event.key, FUSIONS[correction](m)[sample]) for m in group] for group in heard.groups
        ]
        expected = slow.heterogenous(fused, SIZES)
        for (stream, source), value in expected.items():
            rows, columns = heard.layout.streams[stream], heard.layout.streams[source]
            close(found[sample, rows, columns], value, 1e-12)


def test_pos_is_gae_without_its_normalisation_and_with_another_equation_10(golden):
    """Rules 6, 7 and 11 of GAE, and R_qk += Ā R_kk in place of equation 10, written out for LXMERT."""
    heard = lxmert(golden("attribution/lxmert.npz"))
    size = {name: place.stop - place.start for name, place in heard.layout.streams.items()}
    relevance = {(s, u): torch.eye(size[s], size[u]).double() * (s == u) for s in size for u in size}
    for group in heard.groups:
        gained = {pair: torch.zeros_like(value) for pair, value in relevance.items()}
        for one in group:
            s, q, fused = one.event.query, one.event.key, positive(one)[0]
            if s == q:
                for u in size:
                    gained[s, u] += fused @ relevance[s, u]  # 6, 7
            else:
                gained[s, q] += fused @ relevance[q, q]  # in place of 10
                gained[s, s] += fused @ relevance[q, s]  # 11
        relevance = {pair: value + gained[pair] for pair, value in relevance.items()}
    found = blocks(heard, heterogenous(heard))
    for pair, value in relevance.items():
        close(found[pair], value)


def test_single_precision_stays_single():
    heard = three_streams()
    records = [record(m.event.site, m.weights.float(), streams=(m.event.query, m.event.key)) for m in heard]
    single = read(heard.plan, records, [m.gradient.float() for m in heard])
    found = heterogenous_row(single)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), heterogenous_row(heard), rtol=1e-4, atol=1e-5)
