"""Does M4C compute what the published network computes, with any alignment, whatever is missing, and decode it faster?"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lit_attn.errors import UserError
from lit_attn.models.m4c import END, M4C, OCR, START, joint_mask, read_back
from lit_attn.models.m4c_inputs import Pointer, PreviousWord
from lit_attn.models.m4c_weights import convert, our_name
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.bert import BertLayer, BertSizes, renamed
from lit_attn.nn.tape import AttentionTape, Site, sites_of
from lit_attn.nn.text_bert import TextBert
from lit_attn.ops.loss import multilabel_decoding
from lit_attn.types import ReadingBatch
from tests.reference.m4c import answer_by_full_passes, below, published_batch, published_m4c

MODULES, MODEL, STUDY = (f"alignment/{name}.npz" for name in ("m4c_modules", "m4c_model", "study_m4c"))
B, T, R, C, S, F, V, D, H, WORDS = 3, 5, 7, 11, 4, 13, 17, 12, 3, 19
STUDY_NAMES = {
    "scaled": "scaled_dot", "dot": "dot", "general_kwq": "general_query", "general_qwk": "general_key",
    "biased_general_kwq": "biased_query", "biased_general_qwk": "biased_key", "activated_general_qwk": "activated",
}  # fmt: skip


def small(**options) -> M4C:
    """Every parameter drawn anew: initial weights are so small that all scores are nearly equal."""
    settings = {"vocab_size": WORDS, "num_answers": V, "region_dim": F, "word_vector_dim": 6, "phoc_dim": 8, "dim": D,
                "num_heads": H, "hidden": 23, "layers": 2, "text_layers": 2, "max_steps": S}  # fmt: skip
    net = M4C(**(settings | options)).double().eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.normal_(1.0 if "norm.weight" in name else 0.0, 0.5)
    return net


def batch(tokens: int = T, regions: int = R, ocr: int = C) -> ReadingBatch:
    """Questions with 5, 1 and 3 tokens, 7, 0 and 4 objects, 0, 11 and 6 OCR tokens."""

    def mask(size: int, *counts: int) -> Tensor:
        return torch.arange(size) < torch.tensor(counts)[:, None].clamp_max(size)

    def draw(*shape: int) -> Tensor:
        return torch.randn(B, *shape).double()

    return ReadingBatch(
        question_id=torch.arange(B),
        image_id=torch.arange(B),
        tokens=torch.randint(0, WORDS, (B, tokens)),
        token_mask=mask(tokens, 5, 1, 3),
        regions=draw(regions, F),
        boxes=draw(regions, 4).abs(),
        region_mask=mask(regions, 7, 0, 4),
        ocr_vectors=draw(ocr, 6),
        ocr_phoc=draw(ocr, 8),
        ocr_regions=draw(ocr, F),
        ocr_boxes=draw(ocr, 4).abs(),
        ocr_mask=mask(ocr, 0, 11, 6),
        previous=torch.tensor([[1, 4, 16, 2], [1, V + 10, 5, V], [1, V + 5, V + 5, 3]]).clamp_max(V + ocr - 1),
        targets=torch.rand(B, S, V + ocr).double(),
        step_mask=mask(S, 3, 4, 1),
        words=(("word",) * tokens,) * B,
        ocr_words=(("word",) * ocr,) * B,
        answers=(("word",),) * B,
    )


def close(found: Tensor, expected: Tensor, atol: float = 1e-9) -> None:
    torch.testing.assert_close(found, expected.double(), rtol=0, atol=atol)


# The published network


def test_the_pointer_equals_the_original(golden):
    arrays = below(golden(MODULES), "ptr.")
    pointer = Pointer(24, 10)
    pointer.load_state_dict(below(arrays, "weights."))
    mask = arrays["mask"].bool()
    found = pointer.double()(arrays["query"].double(), arrays["key"].double(), mask)
    exists = mask[:, None].expand_as(found)
    close(found[exists], arrays["scores"][exists])
    close(found[:, 0][mask], arrays["scores_one_step"][mask])
    assert (found[~exists] == -torch.inf).all()


def previous_word(weights: dict[str, Tensor]) -> PreviousWord:
    module = PreviousWord(24, 4, 0.1)
    prefix = "mmt.prev_pred_embeddings."
    module.load_state_dict({our_name(prefix + n).removeprefix("previous."): w for n, w in weights.items()})
    return module.double().eval()


def test_the_previous_word_equals_the_original(golden):
    arrays = below(golden(MODULES), "prev.")
    module = previous_word(below(arrays, "weights."))
    given = arrays["indices"], arrays["answer_embeddings"].double(), arrays["ocr_embeddings"].double()
    close(module(*given), arrays["output"])
    rows = [module(given[0][:, i : i + 1], *given[1:], first=i) for i in range(4)]
    close(torch.cat(rows, 1), arrays["output"])


def test_the_joint_layers_equal_the_original(golden):
    arrays = below(golden(MODULES), "mmt.")
    given = below(arrays, "in.")
    weights = below(arrays, "weights.")
    module = previous_word(below(weights, "prev_pred_embeddings."))
    written = module(given["previous_indices"], given["answer_embeddings"].double(), given["ocr"].double())
    x = torch.cat([given["txt"].double(), given["obj"].double(), given["ocr"].double(), written], 1)
    close(x, arrays["encoder_input"])
    seen = torch.cat([given["txt_mask"], given["obj_mask"], given["ocr_mask"]], 1).bool()
    assert not given["ocr_mask"].any(1).all()
    mask = joint_mask(seen, 4)
    assert torch.equal(mask, arrays["additive_mask"][:, 0] == 0)
    state = renamed(weights)
    for i in range(2):
        layer = BertLayer(BertSizes(24, 3, 40), Site("joint", "joint", "joint", 3))
        layer.load_state_dict(below(state, f"layers.{i}.") | below(layer.attn.alignment.state_dict(), ""))
        with AttentionTape(layer.double().eval()) as tape:
            x = layer(x, key_mask=mask, query_mask=torch.ones_like(mask[:, 0]))
        close(tape.records[0].weights, arrays["attention"][i])
        close(x, arrays["hidden"][i])
    close(x, arrays["output"])
    close(x[:, 12:18], arrays["ocr_output"])
    close(x[:, 18:], arrays["dec_output"])


def test_the_whole_network_equals_the_original(golden):
    arrays = golden(MODEL)
    net, given = published_m4c(arrays), published_batch(arrays)
    seen = net.see(given)
    for i, name in enumerate(("text_output", "object_input", "ocr_input")):
        close(seen.part(i, seen.tokens), arrays[name])
    scores = net(given)
    exists = torch.cat([torch.ones(3, 13, dtype=torch.bool), given.ocr_mask], 1)[:, None].expand_as(scores)
    close(scores[exists], arrays["teacher_forced.scores"][exists])
    assert (scores[~exists] == -torch.inf).all()
    assert multilabel_decoding(scores, given.targets, given.step_mask).item() == pytest.approx(
        arrays["loss.value"].item(), abs=1e-9
    )


def test_greedy_answers_equal_the_original(golden):
    arrays = golden(MODEL)
    net, given = published_m4c(arrays), published_batch(arrays)
    assert torch.equal(net.answer(given), arrays["greedy.indices"])
    chosen, scores = answer_by_full_passes(net, given)
    assert torch.equal(chosen, arrays["greedy.indices"])
    exists = scores > -torch.inf
    close(scores[exists], arrays["greedy.scores"][exists])
    assert torch.equal(net.float().answer(given.map(lambda x: x.float() if x.is_floating_point() else x)), chosen)


@pytest.mark.parametrize("published", STUDY_NAMES)
def test_alignments_in_a_layer_equal_the_study(golden, published):
    """Where the study transposes, our weights are the derived ones, and the layer goes on from those."""
    arrays = golden(STUDY)
    layer = BertLayer(BertSizes(24, 3, 20), Site("joint", "joint", "joint", 3), STUDY_NAMES[published])
    weights = renamed({f"encoder.layer.0.{name}": w for name, w in below(arrays, "weights.").items()})
    own = layer.attn.alignment.state_dict(prefix="attn.alignment.")
    matrices = {name: arrays["W" if name.endswith("weight") else "b"] for name in own}
    layer.load_state_dict(below(weights, "layers.0.") | matrices, strict=True)
    layer, hidden, mask = layer.double().eval(), arrays["hidden"].double(), arrays["mask"]
    with AttentionTape(layer) as tape:
        found = layer(hidden, key_mask=mask, query_mask=torch.ones_like(mask[:, 0]))
    record = tape.records[0]
    close(layer.attn._split(layer.attn.query(hidden)), arrays["query"])
    close(record.value, arrays["value"])
    scores = layer.attn.alignment(arrays["query"], arrays["key"])
    if published.endswith("kwq"):
        derived = below(arrays, f"{published}.derived_query_major.")
        close(scores, derived["scores"])
        close(scores.transpose(2, 3), arrays[f"{published}.scores"])
        close(record.weights, derived["attention"])
        close(
            found,
            layer._rest(hidden, layer.attn.output((derived["attention"] @ record.value).transpose(1, 2).flatten(2))),
        )
        assert (found - arrays[f"{published}.layer_output"]).abs().max() > 1e-3
    else:
        close(scores, arrays[f"{published}.scores"])
        close(record.weights, arrays[f"{published}.attention"])
        close(record.context.transpose(1, 2).flatten(2), arrays[f"{published}.context"])
        close(found, arrays[f"{published}.layer_output"])


def test_published_names_are_all_known_and_others_refused(golden):
    published = below(golden(MODEL), "weights.")
    assert len(convert(published, max_steps=4)) == len(published)
    assert our_name("text_bert.pooler.dense.bias") is our_name("text_bert.embeddings.position_ids") is None
    assert our_name("text_bert_out_linear.weight") == "text_join.weight"
    for foreign in ("fc.weight", "mmt.pooler.weight", "text_bert.head.bias"):
        with pytest.raises(UserError, match=foreign):
            our_name(foreign)
    with pytest.raises(UserError, match=r"previous.positions.weight is missing"):
        convert({"classifier.module.bias": torch.ones(3)}, max_steps=4)
    long = published | {"mmt.prev_pred_embeddings.position_embeddings.weight": torch.ones(100, 24)}
    assert convert(long, max_steps=4)["previous.positions.weight"].shape == (4, 24)


# Attention


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_every_record_times_values_is_the_context_that_was_used(alignment):
    net, given = small(alignment=alignment), batch()
    with AttentionTape(net) as tape:
        heard = net(given)
    close(heard, net(given), 1e-12)
    names = [f"text.{i}.self" for i in range(2)] + [f"joint.{i}.self" for i in range(2)]
    assert [record.site.name for record in tape] == [site.name for site in sites_of(net)] == names
    for record in tape:
        close(record.weights @ record.value, record.context, 1e-12)
        sums = record.weights.sum(-1).transpose(1, 2)[record.query_mask]
        close(sums, torch.ones_like(sums), 1e-12)
        assert not record.weights.masked_select(~record.key_mask.unsqueeze(1)).any()


def test_records_of_the_joint_sequence_know_their_parts():
    net, given = small(), batch()
    with AttentionTape(net, "joint.*") as tape:
        net(given)
    masks = {
        "question": given.token_mask,
        "objects": given.region_mask,
        "ocr": given.ocr_mask,
        "decoded": given.step_mask,
    }
    for record in tape:
        assert (record.site.query_stream, record.site.key_stream) == ("joint", "joint")
        assert [part.stream for part in record.parts] == list(masks)
        for stream, mask in masks.items():
            assert torch.equal(record.query_mask[:, record.part(stream)], mask)
        decoded = record.part("decoded")
        assert not record.weights[:, :, : decoded.start, decoded].any()
        assert not record.weights[:, :, decoded, decoded].triu(1).any()
        assert record.weights[:, :, -1, decoded].all()


@pytest.mark.parametrize(
    ("alignment", "equivalence", "parameters"),
    [("general_query", "general", 16), ("general_key", "general", 16), ("biased_key", "general", 20),
     ("biased_query", "biased_query", 20), ("scaled_dot", "scaled_dot", 0), ("activated", "activated", 20)],
)  # fmt: skip
def test_equal_models_have_one_name(alignment, equivalence, parameters):
    described = small(alignment=alignment).describe()
    assert (described.name, described.equivalence, described.parameters) == (alignment, equivalence, 2 * parameters)


def test_the_bias_of_biased_key_changes_nothing_and_that_of_biased_query_does():
    given = batch()
    for alignment, matters in (("biased_key", False), ("biased_query", True)):
        net = small(alignment=alignment)
        before = net(given)
        with torch.no_grad():
            net.layers[0].attn.alignment.proj.bias.add_(3.0)
        assert (before.allclose(net(given), rtol=0, atol=1e-9)) is not matters


# What is missing or masked


def test_masked_tokens_change_nothing_whatever_their_values():
    net, given = small(fc7_dim=9), batch()
    other = replace(
        given,
        tokens=torch.where(given.token_mask, given.tokens, 3),
        **{name: torch.where(given.region_mask[..., None], getattr(given, name), 1e6) for name in ("regions", "boxes")},
        **{
            name: torch.where(given.ocr_mask[..., None], getattr(given, name), 1e6)
            for name in ("ocr_vectors", "ocr_phoc", "ocr_regions", "ocr_boxes")
        },
    )
    close(net(other), net(given), 1e-12)
    assert torch.equal(net.answer(other), net.answer(given))


def one(given: ReadingBatch, i: int) -> ReadingBatch:
    """Question i alone, without padding."""
    row = given.map(lambda tensor: tensor[i : i + 1])
    t, r, o = (int(mask.sum()) for mask in (row.token_mask, row.region_mask, row.ocr_mask))
    cut = {"tokens": t, "token_mask": t, "regions": r, "boxes": r, "region_mask": r, "ocr_vectors": o, "ocr_phoc": o,
           "ocr_regions": o, "ocr_boxes": o, "ocr_mask": o}  # fmt: skip
    return replace(row, **{name: getattr(row, name)[:, :size] for name, size in cut.items()})


@pytest.mark.parametrize("alignment", ["scaled_dot", "biased_query", "activated"])
def test_batched_equals_one_by_one(alignment):
    """The first question has no OCR token, the second one word and no objects."""
    net, given = small(alignment=alignment), batch()
    scores, answers = net(given), net.answer(given)
    for i in range(B):
        alone = one(given, i)
        found = net(alone)
        close(found, scores[i : i + 1, :, : found.shape[-1]], 1e-12)
        assert torch.equal(net.answer(alone), answers[i : i + 1])


@pytest.mark.parametrize(
    "sizes",
    [{"regions": 0}, {"ocr": 0}, {"regions": 0, "ocr": 0}, {"tokens": 1}, {"tokens": 0, "regions": 0, "ocr": 0}],
)
def test_anything_may_be_missing(sizes):
    net, given = small(), batch(**sizes)
    scores = net(given)
    assert scores.shape == (B, S, V + sizes.get("ocr", C))
    assert not scores.isnan().any()
    assert torch.equal(net.answer(given), answer_by_full_passes(net, given)[0])


@pytest.mark.parametrize("alignment", ["scaled_dot", "activated"])
def test_training_on_questions_with_nothing_valid_gives_finite_gradients(alignment):
    net, given = small(alignment=alignment, fc7_dim=9).train(), batch()
    nothing = {name: torch.zeros_like(getattr(given, name)) for name in ("token_mask", "region_mask", "ocr_mask")}
    given = replace(given, **nothing, previous=given.previous.clamp_max(V - 1))
    multilabel_decoding(net(given), given.targets, given.step_mask).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    with AttentionTape(net.eval(), "joint.0.self") as tape:
        net(given)
    seen = slice(0, tape.records[0].part("decoded").start)
    assert not tape.records[0].context[:, :, seen].any()


def test_all_parameters_take_part_even_without_objects_and_ocr_tokens():
    net, given = small(fc7_dim=9).train(), batch(regions=0, ocr=0)
    multilabel_decoding(net(given), given.targets, given.step_mask).backward()
    assert [name for name, p in net.named_parameters() if p.grad is None] == []


def test_a_batch_without_questions():
    net, given = small(), batch().emptied()
    assert net(given).shape == (0, S, V + C)
    assert net.answer(given).shape == (0, S)


# Decoding


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_decoding_with_reuse_equals_full_passes(alignment):
    written = set()
    for _ in range(5):
        net, given = small(alignment=alignment, max_steps=7), batch()
        with torch.no_grad():  # so that copying pays, and what was written a step before matters
            net.layers[-1].feed_norm.bias.zero_()
            net.classifier.bias.zero_()
            net.classifier.weight.mul_(0.3)
            for norm in (net.previous.answer_norm, net.previous.ocr_norm, net.previous.place_norm):
                norm.weight.mul_(3)
        expected, scores = answer_by_full_passes(net, given)
        best = scores.topk(2).values
        assert (best[..., 0] - best[..., 1]).min() > 1e-6
        assert torch.equal(net.answer(given), expected)
        written |= {tuple(row) for row in expected.tolist()}
    assert sum(len(set(row)) > 1 for row in written) > 3
    assert any(id >= V for row in written for id in row)


def test_decoding_goes_on_after_the_end_and_is_not_heard():
    net, given = small(max_steps=7), batch()
    with torch.no_grad():
        net.classifier.bias[END] += 100
    with AttentionTape(net) as tape:
        assert (net.answer(given) == END).all()
        assert not tape.records
        net(given)
    assert net.answer(given).requires_grad is False


def test_reading_an_answer_back_scores_it_best_again():
    net, given = small(max_steps=7), batch()
    answers = net.answer(given)
    answers[1, 3] = END
    again = read_back(given, answers)
    assert torch.equal(again.previous[:, 0], torch.full((B,), START))
    assert torch.equal(again.previous[:, 1:], answers[:, :-1])
    ends = [row.index(END) + 1 if END in row else 7 for row in answers.tolist()]
    assert again.step_mask.sum(1).tolist() == ends
    assert again.step_mask[1].tolist() == [True] * 4 + [False] * 3
    best = net(again).argmax(-1)
    assert torch.equal(best[0], answers[0])
    assert torch.equal(best[2], answers[2])


# Settings


def test_a_question_encoder_of_another_width_is_joined(monkeypatch):
    def pretrained(weights, vocab_size, sizes, layers, trained):
        assert (weights, vocab_size, sizes.dim, layers, trained) == ("folder", WORDS, D, 2, None)
        return TextBert(vocab_size, BertSizes(10, 2, 9), layers)

    monkeypatch.setattr("lit_attn.models.m4c.build_text_bert", pretrained)
    net, given = small(text_weights="folder"), batch()
    assert net.text_join.weight.shape == (D, 10)
    assert {id(p) for p in net.fine_tuned()} == {id(p) for p in net.text.parameters()}
    assert torch.equal(net.answer(given), answer_by_full_passes(net, given)[0])


def test_only_what_was_pretrained_is_fine_tuned():
    net = small(fc7_dim=9)
    assert {id(p) for p in net.fine_tuned()} == {id(p) for m in (net.object_fc7, net.ocr_fc7) for p in m.parameters()}
    assert list(small().text_join.parameters()) == small().fine_tuned() == []


def test_features_are_scaled_to_unit_length_and_zeros_are_added():
    net, given = small(), batch()
    louder = replace(given, regions=7 * given.regions, ocr_phoc=3 * given.ocr_phoc, ocr_regions=0.1 * given.ocr_regions)
    close(net(louder), net(given), 1e-10)
    assert net.ocr.features.in_features == 6 + 8 + F + 50
    plain = small(legacy_zeros=0)
    weights = net.state_dict()
    weights["ocr.features.weight"] = weights["ocr.features.weight"][:, :-50]
    plain.load_state_dict(weights)
    close(plain(given), net(given), 1e-12)


def test_initial_weights_are_as_published():
    net = M4C(vocab_size=97, num_answers=V, alignment="biased_query", layers=1, text_layers=1, fc7_dim=31, region_dim=F)
    layer = net.layers[0]
    for weight in (layer.attn.value.weight, layer.attn.alignment.proj.weight, net.previous.positions.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not layer.attn.alignment.proj.bias.any()
    assert layer.attn_norm.eps == net.previous.ocr_norm.eps == 1e-12
    assert net.objects.box_norm.eps == net.ocr.features_norm.eps == 1e-5
    assert net.ocr.features.in_features == 300 + 604 + 31 + 50
    seen = net.see(batch_of_default_sizes())
    assert seen.part(OCR, seen.tokens).shape == (B, C, 768)


def batch_of_default_sizes() -> ReadingBatch:
    floats = batch().map(lambda x: x.float() if x.is_floating_point() else x)
    return replace(floats, ocr_vectors=torch.randn(B, C, 300), ocr_phoc=torch.rand(B, C, 604))


def test_bad_sizes_are_named():
    with pytest.raises(UserError, match="num_answers=2"):
        small(num_answers=2)
    with pytest.raises(UserError, match="layers=0, max_steps=4"):
        small(layers=0)
    with pytest.raises(UserError, match="dim=12, heads=5"):
        small(num_heads=5)
    with pytest.raises(UserError, match="'general_qery'"):
        small(alignment="general_qery")
    with pytest.raises(UserError, match="have 4 steps, more than max_steps=3"):
        small(max_steps=3)(batch())
