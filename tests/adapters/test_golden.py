"""Do golden networks, heard through their adapters, give the maps, gradients and relevance of the original code?"""

import pytest
import torch

from lit_attn.adapters.load import load
from lit_attn.attribution.capture import capture
from lit_attn.attribution.explain import explain
from lit_attn.attribution.gradcam import weighted_heads
from lit_attn.attribution.heard import read
from lit_attn.attribution.importance import blank_out, input_gradient
from lit_attn.attribution.lrp import lrp, partial_lrp, transformer_attribution
from lit_attn.attribution.odam import min_max, odam
from lit_attn.attribution.raw import raw_attention
from lit_attn.attribution.relevance import gae, positive_relevance
from lit_attn.attribution.rollout import rollout_row
from lit_attn.attribution.segmentation import as_bytes
from lit_attn.attribution.targets import score_of
from tests.attribution.golden_streams import blocks
from tests.conftest import SHARED

MODELS = SHARED / "golden" / "attribution"
DETR_SITES = {"enc": "encoder.{}.self", "dec": "decoder.{}.self", "cross": "decoder.{}.cross"}
LXMERT_SITES = {
    "lang": "language.{}.self",
    "visn": "visual.{}.self",
    "x_ti": "cross.{}.language",
    "x_it": "cross.{}.visual",
    "x_tt": "cross.{}.language_self",
    "x_ii": "cross.{}.visual_self",
}


@pytest.fixture(scope="module")
def network():
    """A golden network in float64, as `explain` would load it."""

    def named(folder: str):
        if not (MODELS / folder).exists():
            pytest.skip(f"{MODELS / folder} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
        return load(f"hf:{MODELS / folder}").net.double()

    return named


def close(found, expected, relative=1e-9):
    """Within a share of the largest entry."""
    torch.testing.assert_close(found, expected, rtol=0, atol=relative * float(expected.abs().max()))


def heard(net, inputs, target, row=None, *, rules=None):
    """The plan's maps with gradients, and with relevance by `rules` of the network."""
    captured = capture(net, lambda net: net(**inputs))
    gradients = captured.gradients_of(captured.target(target))
    relevance = None
    if rules is not None:
        again = capture(net, lambda net: net(**inputs), rules=rules(net))
        relevance = again.gradients_of(again.target(target))
    return captured, read(net.plan(row), captured.records, gradients, relevance)


def layers(found, pattern, what):
    """All layers of one kind of site, `l h q k` of the first sample."""
    own = {one.event.site: getattr(one, what)[0] for one in found}
    count = sum(pattern.format(i) in own for i in range(99))
    return torch.stack([own[pattern.format(i)] for i in range(count)])


def shown(one):
    """Partial LRP as the original shows it for two modalities: with its sign, scaled over the whole map."""
    return min_max(one.relevance.mean(1))[0]


@pytest.mark.parametrize("case", ["plain", "padded"])
def test_bert(golden, network, case):
    arrays = golden("attribution/bert.npz")
    inputs = {name: arrays[f"{case}/{name}"] for name in ("input_ids", "attention_mask")}
    label = int(arrays[f"{case}/target"])
    net = network("bert")
    captured, found = heard(net, inputs, lambda o: o.logits[:, label], rules=lrp if case == "plain" else None)
    real = inputs["attention_mask"][0].bool()
    keep = real[:, None] & real
    close(captured.output.logits[0], arrays[f"{case}/logits"])
    close(layers(found, "encoder.{}.self", "weights"), arrays[f"{case}/attn"] * keep)
    close(layers(found, "encoder.{}.self", "gradient"), arrays[f"{case}/grad"] * keep)
    close(gae(found)[0][real][:, real], arrays[f"{case}/gae_R"][real][:, real])
    for start in range(4):
        close(rollout_row(found, start=start)[0, 1:], arrays[f"{case}/rollout_start{start}"][1:])
    close(raw_attention(found)[0, 1:], arrays[f"{case}/attn_last_layer"][1:])
    if case == "plain":
        close(layers(found, "encoder.{}.self", "relevance"), arrays["plain/lrp"], 1e-7)
        close(partial_lrp(found)[0, 1:], arrays["plain/partial_lrp"][1:], 1e-7)
        row = transformer_attribution(found, start=3, normalize=True)[0]
        close(row[1:], arrays["plain/transformer_attribution_start3"][1:], 1e-7)


def test_vit(golden, network):
    """The library computes this network's softmax in float32, so about 1e-5 is all there is."""
    arrays = golden("attribution/vit.npz")
    label = int(arrays["target"])
    pixels = {"pixel_values": arrays["pixel_values"].double()}
    net = network("vit")
    _, found = heard(net, pixels, lambda o: o.logits[:, label], rules=lrp)
    for name, what in (("attn", "weights"), ("grad", "gradient"), ("lrp", "relevance")):
        close(layers(found, "encoder.{}.self", what), arrays[name], 3e-5)
    scores = explain(
        net, net.plan(), lambda net: net(**pixels).logits, lambda s: s[:, label], ["gae", "rollout", "t_attr", "raw"]
    )
    expected = ("gae", "rollout_start0", "transformer_attribution_start0", "attn_last_layer")
    for method, name in zip(scores, expected, strict=True):
        close(scores[method].streams["patches"][0], arrays[name], 1e-5)
        assert scores[method].streams["class"].shape == (1, 1)


def test_visual_bert(golden, network):
    arrays = golden("attribution/visualbert.npz")
    names = ("input_ids", "attention_mask", "token_type_ids", "visual_attention_mask", "visual_token_type_ids")
    inputs = {**{name: arrays[name] for name in names}, "visual_embeds": arrays["visual_embeds"].double()}
    row, label = int(arrays["target_row"]), int(arrays["target"])
    captured, found = heard(network("visualbert"), inputs, lambda o: o.logits[:, label], row, rules=lrp)
    close(captured.output.logits[0], arrays["logits"])
    for name, what in (("attn", "weights"), ("grad", "gradient")):
        close(layers(found, "encoder.{}.self", what), arrays[name])
    others = torch.arange(17) != row  # its own entry is 0 there
    results = {
        "gae": found.target_row(gae(found))[0],
        "raw_attn": raw_attention(found)[0],
        "rollout_start0": rollout_row(found, normalize=False)[0],
        "rollout_start1": rollout_row(found, normalize=False, start=1)[0],
        "attn_gradcam": min_max(weighted_heads(list(found)[-1]))[0, row],
    }
    for name, scores in results.items():
        close(scores[others], arrays[name][others])
    assert found.layout.parts == {"text": slice(0, 8), "image": slice(8, 17)}
    # What remains is the original's epsilon where tensors are used twice and where a mask of zeros is added.
    close(layers(found, "encoder.{}.self", "relevance"), arrays["lrp"], 1e-6)
    close(transformer_attribution(found)[0][others], arrays["transformer_attribution"][others], 1e-6)
    close(shown(list(found)[-1])[row][others], arrays["partial_lrp"][others], 1e-6)


def lxmert_inputs(arrays, text="input"):
    names = ("input_ids", "attention_mask", "token_type_ids")
    pictures = {name: arrays[f"input/{name}"].double() for name in ("visual_feats", "visual_pos")}
    return {**{name: arrays[f"{text}/{name}"] for name in names}, **pictures}


@pytest.mark.parametrize("which", ["top", "second"])
def test_lxmert(golden, network, which):
    arrays = golden("attribution/lxmert.npz")
    answer = int(arrays[f"answer_{which}"])

    def target(output):
        return output.question_answering_score[:, answer]

    captured, found = heard(network("lxmert"), lxmert_inputs(arrays), target, rules=lrp)
    close(captured.output.question_answering_score[0], arrays["logits"])
    for site, pattern in LXMERT_SITES.items():
        close(layers(found, pattern, "weights"), arrays[f"attn/{site}"])
        close(layers(found, pattern, "gradient"), arrays[f"grad_{which}/{site}"])
        if which == "top":
            close(layers(found, pattern, "relevance"), arrays[f"lrp_top/{site}"], 1e-6)
    for name, options, relative in (
        ("ours_no_lrp", {}, 1e-9),
        ("ours_no_lrp_no_norm", {"normalize": False}, 1e-9),
        ("ours_with_lrp", {"fuse": positive_relevance}, 1e-6),
        ("ours_with_lrp_no_normalization", {"fuse": positive_relevance, "normalize": False}, 1e-6),
    ):
        matrix = blocks(found, gae(found, **options))
        matrix["text", "text"][0, 0] = 0  # as the original shows it
        for (row, column), block in matrix.items():
            close(block, arrays[f"{which}/{name}/R_{row[0]}_{column[0]}"], relative)
    maps = {one.event.site: one for one in found}
    close(shown(maps["cross.2.language"]), arrays[f"{which}/partial_lrp/R_t_i"], 1e-6)
    close(positive_relevance(maps["cross.2.language"])[0], arrays[f"{which}/transformer_att/R_t_i"], 1e-6)
    words = torch.eye(8, dtype=torch.float64)
    for pattern in ("language.{}.self", "cross.{}.language_self"):
        for layer in range(3):
            words = words + positive_relevance(maps[pattern.format(layer)])[0] @ words
    for name, matrix in (("partial_lrp", shown(maps["cross.2.language_self"])), ("transformer_att", words)):
        matrix[0, 0] = 0  # as the original shows it
        close(matrix, arrays[f"{which}/{name}/R_t_t"], 1e-6)


def test_lxmert_with_padding(golden, network):
    """Padding changes nothing; where the original survives it, its rows of real words are ours."""
    arrays = golden("attribution/lxmert.npz")
    answer = int(arrays["answer_top"])

    def target(output):
        return output.question_answering_score[:, answer]

    captured, found = heard(network("lxmert"), lxmert_inputs(arrays, "padded"), target)
    close(captured.output.question_answering_score[0], arrays["logits"])
    assert found.layout.mask[0].tolist() == [True] * 8 + [False] * 2 + [True] * 10
    with_padding = blocks(found, gae(found))
    close(with_padding["text", "image"][:8], arrays["top/ours_no_lrp/R_t_i"])
    for name, options in (
        ("ours_no_lrp_no_norm", {"normalize": False}),
        ("ablation_no_self_in_10", {"through_self": False}),
    ):
        matrix = blocks(found, gae(found, **options))
        close(matrix["text", "image"][0], arrays[f"padded_original/{name}/R_t_i"][0])
        close(matrix["text", "text"][0, 1:], arrays[f"padded_original/{name}/R_t_t"][0, 1:])
    row = raw_attention(found)[0]
    close(row[found.layout.streams["image"]], arrays["padded_original/raw_attn/R_t_i"][0])
    close(row[found.layout.streams["text"]][1:], arrays["padded_original/raw_attn/R_t_t"][0, 1:])


def test_lxmert_in_a_batch_and_its_features(golden, network):
    arrays = golden("attribution/lxmert.npz")
    answer = int(arrays["answer_top"])
    net = network("lxmert")
    one, padded = lxmert_inputs(arrays), lxmert_inputs(arrays, "padded")
    longer = {name: torch.cat([one[name], one[name][:, -2:]], 1) for name in ("input_ids", "attention_mask")}
    inputs = {name: torch.cat([longer.get(name, padded[name]), padded[name]]) for name in padded}
    scores = explain(
        net, net.plan(), lambda net: net(**inputs).question_answering_score, lambda s: s[:, answer], ["gae"]
    )["gae"]
    close(scores.streams["image"][1], arrays["top/ours_no_lrp/R_t_i"][0])
    with net.embedded() as features:
        output = net(**one)
    close(
        odam(output.question_answering_score[0, answer], features["image"], -1)[0], golden_odam(golden, "lxmert/image")
    )


def golden_odam(golden, name):
    return golden("attribution/odam.npz")[name]


@pytest.mark.parametrize("modality", ["image", "text"])
@pytest.mark.parametrize("test", ["positive", "negative"])
def test_lxmert_answers_at_every_step_of_a_perturbation(golden, network, modality, test):
    """The last step on pictures has no boxes at all."""
    arrays = golden("attribution/perturbation.npz")
    net = network("lxmert")
    fewest = 99
    for step, kept in enumerate(arrays[f"{modality}/{test}/kept"]):
        kept = kept[kept >= 0]
        words, boxes = torch.arange(12), torch.arange(20)
        words, boxes = (kept, boxes) if modality == "text" else (words, kept)
        fewest = min(fewest, len(boxes))
        inputs = {name: arrays[f"input/{name}"][:, words] for name in ("input_ids", "token_type_ids")}
        inputs |= {name: arrays[f"input/{name}"][:, boxes].double() for name in ("visual_feats", "visual_pos")}
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        with torch.no_grad():
            scores = net(**inputs).question_answering_score[0]
        close(scores, arrays[f"{modality}/{test}/logits"][step])
    assert fewest == (0 if modality == "image" else 20)
    assert not any("forward" in module.__dict__ for module in net.modules())
    inputs |= {name: arrays[f"input/{name}"][:, :0].double() for name in ("visual_feats", "visual_pos")}
    found = explain(net, net.plan(), lambda net: net(**inputs).question_answering_score, lambda s: s[:, 0], ["rollout"])
    assert found["rollout"].streams["image"].shape == (1, 0)
    torch.testing.assert_close(found["rollout"].streams["text"].sum(-1), torch.ones(1, dtype=torch.float64))


def test_detr(golden, network):
    arrays = golden("attribution/detr.npz")
    query, label = int(arrays["query"]), int(arrays["class_top"])
    pixels = {"pixel_values": arrays["pixel_values"].double()}
    net = network("detr")
    captured, found = heard(net, pixels, lambda o: o.logits[:, query, label], query)
    close(captured.output.logits[0], arrays["logits"])
    for site, pattern in DETR_SITES.items():
        close(layers(found, pattern, "weights"), arrays[f"attn/{site}"])
        close(layers(found, pattern, "gradient"), arrays[f"grad_top/{site}"], 1e-8)
    for name, normalize in (("ours_no_lrp", True), ("ours_no_lrp_no_norm", False)):
        matrix = blocks(found, gae(found, normalize=normalize))
        for key, block in (
            ("R_q_i", ("queries", "image")),
            ("R_q_q", ("queries", "queries")),
            ("R_i_i", ("image", "image")),
        ):
            close(matrix[block], arrays[f"relevance/{name}/{key}"], 1e-8)
    close(raw_attention(found)[0, found.layout.streams["image"]], arrays["relevance/raw_attn"], 1e-8)

    with net.embedded() as features:
        output = net(**pixels)
    place = odam(output.logits[0, query, label], features["image"], -1)[0].view(5, 6)
    close(place, golden_odam(golden, "detr/class/projected"), 1e-8)
    box = odam(output.pred_boxes[0, query, 2], features["image"], -1)[0].view(5, 6)
    close(box, golden_odam(golden, "detr/w/projected"), 1e-8)


def test_detr_by_lrp(golden, network):
    """The original gives no relevance to the positions of queries. Partial LRP and T-Attr are of the last cross map there."""
    arrays = golden("attribution/detr.npz")
    query, label = int(arrays["query"]), int(arrays["class_top"])
    pixels = {"pixel_values": arrays["pixel_values"].double()}
    net = network("detr")

    def found(rules):
        return heard(net, pixels, lambda o: o.logits[:, query, label], query, rules=rules)[1]

    as_published = found(lambda net: lrp(net, constants=["query_position_embeddings"]))
    for site, pattern in DETR_SITES.items():
        close(layers(as_published, pattern, "relevance"), arrays[f"lrp_top/{site}"], 1e-6)
    # By LRP a query has no positive relevance in the first layer, whose update the original then loses.
    expected = arrays["relevance/ours_with_lrp/R_q_i"]
    wiped, safe = (
        blocks(as_published, gae(as_published, fuse=positive_relevance, empty_rows=empty))["queries", "image"]
        for empty in ("wipe", "safe")
    )
    close(wiped, expected, 1e-6)
    assert (safe - expected).abs().max() > 1e-5 * expected.max()
    # Positions are added below the last cross map, so that what is read off it does not depend on them.
    shared = found(lrp)
    for one in (as_published, shared):
        last = list(one)[-1]
        close(shown(last), arrays["relevance/partial_lrp/R_q_i"], 1e-6)
        close(positive_relevance(last)[0], arrays["relevance/transformer_att/R_q_i"], 1e-6)
    gap = (layers(shared, DETR_SITES["dec"], "relevance") - arrays["lrp_top/dec"]).abs()
    assert gap.amax((1, 2, 3)).min() > 1e-2 * arrays["lrp_top/dec"].max()


def test_detr_masks_by_lrp(golden, network):
    """Maps of 256 levels of the surest queries, each for its best class."""
    arrays, masks = golden("attribution/detr.npz"), golden("attribution/detr_masks.npz")
    pixels = {"pixel_values": arrays["pixel_values"].double()}
    net = network("detr")
    for place, query in enumerate(masks["kept_queries"].tolist()):
        label = int(arrays["logits"][query, :-1].argmax())

        def target(output, query=query, label=label):
            return output.logits[:, query, label]

        last = list(heard(net, pixels, target, query, rules=lrp)[1])[-1]
        for name, matrix in (("partial_lrp", shown(last)), ("transformer_att", positive_relevance(last)[0])):
            assert torch.equal(as_bytes(matrix[query].view(1, 5, 6))[0], masks[f"{name}/map_uint8"][place])


def test_distilbert_by_word_embeddings(golden, network):
    """Features of its whole embedding block, handed in as embeddings, are embedded twice; word embeddings are not."""
    arrays = golden("attribution/importance.npz")
    net = network("distilbert_mlm")
    tokens = arrays["mlm/input_ids"].unsqueeze(0)
    place, verb, other = (int(arrays[f"mlm/{name}"]) for name in ("mask_position", "verb_id", "inflected_id"))

    def difference(output):
        chances = output.logits[:, place].softmax(-1)
        return chances[:, verb] - chances[:, other]

    with net.embedded() as features:
        captured = capture(net, lambda net: net(input_ids=tokens))
    target = captured.target(difference)
    close(target, arrays["mlm/script/main_difference"].view(1))
    maps = torch.stack([record.weights[0] for record in captured.records])
    close(maps, arrays["mlm/script/attn"])
    for score in ("l1", "l2", "grad_x_input"):
        close(input_gradient(target, features["text"], score)[0], arrays[f"mlm/word_embedding/{score}"])

    def forward(copies, owner):
        return net(input_ids=copies).logits[:, place].softmax(-1)

    classes, against = torch.tensor([verb]), torch.tensor([other])
    change = blank_out(forward, tokens, int(arrays["mlm/mask_id"]), classes=classes, against=against)
    close(change[0], arrays["mlm/script/blankout"])
    words = net.embeddings["text"](tokens)
    close(difference(net(inputs_embeds=words)).detach(), target.detach())
    block = net.model.distilbert.embeddings(tokens)
    doubled = difference(net(inputs_embeds=block)).detach()
    close(doubled, arrays["mlm/doubled/main_difference"].view(1))
    assert (doubled - target.detach()).abs() > 1e-3


@pytest.mark.parametrize("sample", ["s0", "s1", "s2"])
def test_importance_on_bert(golden, network, sample):
    arrays = golden("attribution/importance.npz")
    net = network("bert")
    tokens = arrays[f"{sample}/input_ids"].unsqueeze(0)

    def forward(copies, owner):
        return net(input_ids=copies).logits.softmax(-1)

    with net.embedded() as features:
        chances = forward(tokens, None)
    close(chances[0].detach(), arrays[f"{sample}/probs"])
    close(features["text"][0].detach(), arrays[f"{sample}/word_embedding"])
    for score, name in (("l1", "l1"), ("l2", "l2"), ("grad_x_input", "grad_x_input_word")):
        close(input_gradient(chances[:, 0] - chances[:, 1], features["text"], score)[0], arrays[f"{sample}/{name}"])
    gold = arrays[f"{sample}/gold"].view(1)
    for blank in ("unk", "pad_id"):
        replacement = int(arrays["unk_id" if blank == "unk" else "pad_id"])
        change = blank_out(forward, tokens, replacement, classes=gold)[0]
        close(change, arrays[f"{sample}/blankout_{blank}_gold"])
    assert score_of(chances, gold).item() == pytest.approx(float(arrays[f"{sample}/probs"][int(gold)]))
