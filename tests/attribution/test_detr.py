"""Does one empty row wipe out a whole layer? GAE on the golden DETR, for many targets."""

import torch

from lit_attn.attribution.heard import read
from lit_attn.attribution.odam import odam
from lit_attn.attribution.relevance import gae
from tests.attribution.golden_streams import detr_plan
from tests.attribution.test_lrp import published
from tests.reference.attribution import record

TARGETS = ((0, 0), (1, 3), (2, 6), (3, 2), (4, 5), (5, 1), (6, 4), (7, 0), (8, 3))
"""Query and class; both kinds are among them, and the test checks that they are."""


def maps(output):
    """The maps by site, each `1 h q k`."""
    return {
        f"{site}.{i}": one
        for site, layers in (
            ("enc", output.encoder_attentions),
            ("dec", output.decoder_attentions),
            ("cross", output.cross_attentions),
        )
        for i, one in enumerate(layers)
    }


def test_safe_rows_and_the_original_behaviour(golden):
    arrays = golden("attribution/detr.npz")
    net = published("DetrForObjectDetection", "detr")
    features = {}
    net.model.encoder.register_forward_hook(lambda *given: features.update(memory=given[2].last_hidden_state))
    net.model.input_projection.register_forward_hook(lambda *given: features.update(projected=given[2]))
    output = net(pixel_values=arrays["pixel_values"].double(), output_attentions=True)
    found = maps(output)
    wiped = 0
    for query, label in TARGETS:
        plan = detr_plan(query)
        weights = [found[event.site] for event in plan]
        gradients = torch.autograd.grad(output.logits[0, query, label], weights, retain_graph=True)
        records = [record(e.site, w.detach(), streams=(e.query, e.key)) for e, w in zip(plan, weights, strict=True)]
        heard = read(plan, records, gradients)
        for name, empty in (("ours_safe", "safe"), ("ours_no_lrp", "wipe")):
            row = heard.target_row(gae(heard, empty_rows=empty))[0, heard.layout.streams["image"]]
            torch.testing.assert_close(row, arrays[f"all/{name}"][query, label], rtol=0, atol=1e-10)
        wiped += bool(arrays["all/layer_wiped"][query, label].any())
    assert 0 < wiped < len(TARGETS)

    golden_maps = golden("attribution/odam.npz")
    query, label = int(arrays["query"]), int(arrays["class_top"])
    targets = {"class": output.logits[0, query, label]}
    targets |= dict(zip(("cx", "cy", "w", "h"), output.pred_boxes[0, query], strict=True))
    for name, target in targets.items():
        projected = odam(target, features["projected"])[0]
        torch.testing.assert_close(projected, golden_maps[f"detr/{name}/projected"], rtol=1e-8, atol=1e-12)
        memory = odam(target, features["memory"], channels=-1)[0].view(5, 6)
        torch.testing.assert_close(memory, golden_maps[f"detr/{name}/memory"], rtol=1e-8, atol=1e-12)
