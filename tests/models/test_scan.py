"""Does SCAN compute what its equations and the original code say, for all pairs at once?"""

import pytest
import torch
from torch.nn.functional import normalize

from lit_attn.errors import UserError
from lit_attn.models.scan import Scan, StackedCrossAttention
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.tape import AttentionTape
from lit_attn.ops.loss import matching_hinge
from lit_attn.ops.normalize import NORMALIZERS
from tests.reference import scan as reference

POOLING = {"Mean": ("mean", 1.0), "LogSumExp": ("lse", None), "Max": ("max", 1.0), "Sum": ("sum", 1.0)}
DIRECTION = {"t2i": "text_to_image", "i2t": "image_to_text"}


def matcher(
    dim: int = 11, alignment: str = "dot", direction: str = "text_to_image", **options
) -> StackedCrossAttention:
    settings = {
        "normalizer": "clipped_l2norm",
        "temperature": 9.0,
        "pooling": "mean",
        "sharpness": 6.0,
        "paper_layout_bug": False,
        "chunk_elements": 2**22,
    } | options
    return StackedCrossAttention(dim, alignment, direction, **settings).double().eval()


def words_mask(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    return torch.arange(longest) < lengths[:, None]


def all_pairs(module, images, captions, lengths, region_mask=None) -> torch.Tensor:
    mask = words_mask(lengths, captions.shape[1])
    region_mask = torch.ones(images.shape[:2], dtype=torch.bool) if region_mask is None else region_mask
    return module(captions[mask], lengths, images, region_mask)


def attention(module, images, captions, lengths) -> torch.Tensor:
    """Weights of every caption with every picture: [caption, picture, query, key]."""
    mask = words_mask(lengths, captions.shape[1])
    region_mask = torch.ones(images.shape[:2], dtype=torch.bool)
    maps = []
    for image, one_region_mask in zip(images, region_mask, strict=True):
        with AttentionTape(module) as tape:
            count = len(captions)
            module.aligned(captions, mask, image.expand(count, -1, -1), one_region_mask.expand(count, -1))
        maps.append(tape["match"][0].weights[:, 0])
    return torch.stack(maps, 1)


def golden_keys(arrays, prefix=""):
    for name in arrays:
        if name.startswith(prefix) and name.endswith(".scores"):
            yield name


@pytest.mark.parametrize(("raw", "cases"), [(False, 20), (True, 3)])
def test_scores_and_attention_equal_the_original(golden, raw, cases):
    arrays = golden("alignment/scan_attention.npz")
    prefix = "raw." if raw else ""
    images = arrays["raw_images" if raw else "images"].double()
    captions = arrays["raw_captions" if raw else "captions_junk_padding"].double()
    checked = 0
    for key in golden_keys(arrays, prefix):
        if not raw and key.startswith("raw."):
            continue
        parts = key.removeprefix("repaired.").removeprefix("raw.").split(".")
        direction, normalizer, temperature, aggregate = parts[0], parts[1], parts[2], parts[3]
        pooling = next(value for name, value in POOLING.items() if aggregate.startswith(name))
        module = matcher(
            direction=DIRECTION[direction],
            normalizer=normalizer,
            temperature=float(temperature.removeprefix("lambda")),
            pooling=pooling[0],
            sharpness=float(aggregate.removeprefix("LogSumExp") or 1) if pooling[0] == "lse" else 1.0,
        )
        scores = all_pairs(module, images, captions, arrays["lengths"])
        torch.testing.assert_close(scores, arrays[key], rtol=0, atol=1e-9, msg=key)
        maps = attention(module, images, captions, arrays["lengths"])
        wanted = arrays[key.rsplit(".", 2)[0] + ".attention"].transpose(-1, -2)
        torch.testing.assert_close(maps, wanted, rtol=0, atol=1e-9, msg=key)
        checked += 1
    assert checked >= cases


def test_loss_and_gradients_equal_the_original(golden):
    arrays = golden("alignment/scan_loss.npz")
    checked = 0
    for key in golden_keys(arrays):
        base = key.removesuffix(".scores")
        direction, normalizer, temperature, aggregate = base.split(".")
        pooling = next(value for name, value in POOLING.items() if aggregate.startswith(name))[0]
        module = matcher(
            direction=DIRECTION[direction],
            normalizer=normalizer,
            temperature=float(temperature.removeprefix("lambda")),
            pooling=pooling,
            sharpness=float(aggregate.removeprefix("LogSumExp") or 1) if pooling == "lse" else 1.0,
        )
        for kind in ("max", "sum"):
            images = arrays["images"].double().requires_grad_()
            captions = arrays["captions"].double().requires_grad_()
            scores = all_pairs(module, images, captions, arrays["lengths"])
            loss = matching_hinge(scores, float(arrays["margin"]), hardest=kind == "max")
            loss.backward()
            torch.testing.assert_close(loss.detach(), arrays[f"{base}.{kind}.loss"], rtol=0, atol=1e-9)
            for tensor, name in ((images, "images"), (captions, "captions")):
                torch.testing.assert_close(tensor.grad, arrays[f"{base}.{kind}.grad_{name}"], rtol=0, atol=1e-8)
            checked += 1
    assert checked >= 4


RENAMED = {
    "img_enc.fc.": "image_encoder.proj.",
    "txt_enc.embed.": "text_encoder.embed.",
    "txt_enc.rnn.": "text_encoder.gru.",
}


def test_encoders_and_one_training_step_equal_the_original(golden):
    arrays = golden("alignment/scan_encoder.npz")
    weights = {}
    for old, new in RENAMED.items():
        weights |= {new + n.removeprefix(old): a.double() for n, a in arrays.items() if n.startswith(old)}
    vocab_size, word_dim = weights["text_encoder.embed.weight"].shape
    dim, region_dim = weights["image_encoder.proj.weight"].shape
    mask = words_mask(arrays["lengths"], arrays["token_ids"].shape[1])
    for model, options, clip in (
        ("t2i_avg", {}, 2.0),
        ("t2i_avg_clip", {}, 0.05),
        ("i2t_lse", {"direction": "image_to_text", "temperature": 4.0, "pooling": "lse", "sharpness": 5.0}, None),
    ):
        net = Scan(vocab_size=vocab_size, region_dim=region_dim, dim=dim, word_dim=word_dim, alignment="dot", **options)
        net = net.double()
        net.load_state_dict(weights)
        features = arrays["features"].double()
        region_mask = torch.ones(features.shape[:2], dtype=torch.bool)
        torch.testing.assert_close(net.image_encoder(features), arrays["image_embeddings"], rtol=0, atol=1e-9)
        words = net.text_encoder(arrays["token_ids"], mask)
        torch.testing.assert_close(words, arrays["caption_embeddings"], rtol=0, atol=1e-9)
        scores = net(features, region_mask, arrays["token_ids"], mask)
        loss = matching_hinge(scores)
        loss.backward()
        if f"{model}.scores" in arrays:
            torch.testing.assert_close(scores.detach(), arrays[f"{model}.scores"], rtol=0, atol=1e-9)
            torch.testing.assert_close(loss.detach(), arrays[f"{model}.loss"], rtol=0, atol=1e-9)
        for old, new in RENAMED.items():
            for name, parameter in net.named_parameters():
                gradient = f"{model}.grad.{old}{name.removeprefix(new)}"
                if name.startswith(new) and gradient in arrays:
                    torch.testing.assert_close(parameter.grad, arrays[gradient], rtol=0, atol=1e-8)
        if clip is None:
            continue
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        if f"{model}.grad_norm" in arrays:
            torch.testing.assert_close(norm, arrays[f"{model}.grad_norm"], rtol=0, atol=1e-8)
        torch.optim.Adam(net.parameters(), lr=2e-4).step()
        for old, new in RENAMED.items():
            for name, parameter in net.named_parameters():
                if name.startswith(new):
                    wanted = arrays[f"{model}.after_step.{old}{name.removeprefix(new)}"]
                    torch.testing.assert_close(parameter.detach(), wanted, rtol=0, atol=1e-8)


STUDY = {
    "cosine": "cosine",
    "dot": "dot",
    "general_kwq": "general_query",
    "general_qwk": "general_key",
    "biased_general_kwq": "biased_query",
    "biased_general_qwk": "biased_key",
    "activated_general_relu": "activated",
}


@pytest.mark.parametrize("bug", [False, True])
def test_alignments_equal_the_published_study(golden, bug):
    arrays = golden("alignment/study_scan.npz")
    images, captions, lengths = arrays["images"].double(), arrays["captions"].double(), arrays["lengths"]
    published_bug = dict(zip(arrays["variants"].tolist(), arrays["layout_bug"].tolist(), strict=True))
    for variant, name in STUDY.items():
        variant = next(v for v in published_bug if v == variant or v.replace("_qwk", "") == variant)
        module = matcher(alignment=name, paper_layout_bug=bug)
        for parameter, value in (("weight", arrays["W"]), ("bias", arrays["b"])):
            if hasattr(module.alignment, "proj") and getattr(module.alignment.proj, parameter) is not None:
                getattr(module.alignment.proj, parameter).data.copy_(value.double())
        pairs = len(captions), len(images)
        scores = module.alignment(captions[:, None].expand(*pairs, -1, -1), images.expand(*pairs, -1, -1))
        exists = words_mask(lengths, captions.shape[1])[:, None, :, None]
        torch.testing.assert_close(
            scores.masked_fill(~exists, 0).float(), arrays[f"{variant}.scores"], rtol=0, atol=2e-5, msg=variant
        )
        wrong = published_bug[variant]
        which = "derived_correct.{}" if wrong and not bug else "{}_as_published"
        weights = arrays[f"{variant}.{which.format('weights')}"].double()
        similarity = arrays[f"{variant}.{which.format('similarity')}"].double()
        torch.testing.assert_close(
            attention(module, images, captions, lengths), weights, rtol=0, atol=2e-5, msg=variant
        )
        torch.testing.assert_close(
            all_pairs(module, images, captions, lengths), similarity, rtol=0, atol=2e-5, msg=variant
        )


def random_inputs(pictures=5, captions=7, regions=13, longest=11, dim=17):
    lengths = torch.randint(1, longest + 1, (captions,))
    lengths[0] = longest
    lengths[1] = 1
    images = normalize(torch.randn(pictures, regions, dim, dtype=torch.float64), dim=-1)
    words = normalize(torch.randn(captions, longest, dim, dtype=torch.float64), dim=-1)
    region_mask = torch.rand(pictures, regions) < 0.7
    region_mask[:, 0] = True
    return images, words, lengths, region_mask


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
@pytest.mark.parametrize("alignment", list(ALIGNMENTS))
def test_all_pairs_equal_loops_over_single_pairs(direction, alignment):
    images, words, lengths, region_mask = random_inputs()
    for normalizer in NORMALIZERS:
        for pooling in ("mean", "sum", "max", "lse"):
            module = matcher(17, alignment, direction, normalizer=normalizer, pooling=pooling, temperature=4.0)
            found = all_pairs(module, images, words, lengths, region_mask)

            def score(q, k, alignment=module.alignment):
                return alignment(q[None], k[None])[0, 0].detach()

            for i, c in ((0, 0), (1, 1), (4, 6), (2, 3)):
                image, caption = images[i][region_mask[i]], words[c, : lengths[c]]
                query, key = (caption, image) if direction == "text_to_image" else (image, caption)
                wanted, _ = reference.similarity(query, key, score, normalizer, 4.0, pooling, 6.0)
                assert abs(found[i, c].item() - wanted) < 1e-10


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_explicit_path_and_fast_path_agree_also_in_their_gradients(direction):
    images, words, lengths, region_mask = random_inputs(pictures=7)
    module = matcher(17, "biased_query", direction)
    gradients = []
    for explicit in (True, False):
        module.zero_grad()
        a, b = images.clone().requires_grad_(), words.clone().requires_grad_()
        if explicit:
            scores = module.aligned(b, words_mask(lengths, 11), a, region_mask)
        else:
            scores = all_pairs(module, a, b, lengths, region_mask).diagonal()
        scores.square().sum().backward()
        gradients.append((scores.detach(), a.grad, b.grad, module.alignment.proj.weight.grad.clone()))
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-10)


def test_chunks_change_nothing():
    images, words, lengths, region_mask = random_inputs(pictures=23, captions=29)
    whole = all_pairs(matcher(17), images, words, lengths, region_mask)
    pieces = all_pairs(matcher(17, chunk_elements=100), images, words, lengths, region_mask)
    torch.testing.assert_close(whole, pieces, rtol=0, atol=1e-12)


def test_padding_whatever_its_values_changes_nothing():
    images, words, lengths, region_mask = random_inputs()
    module = matcher(17, "biased_query")
    before = all_pairs(module, images, words, lengths, region_mask)
    images = torch.where(region_mask[..., None], images, 1e3)
    torch.testing.assert_close(all_pairs(module, images, words, lengths, region_mask), before, rtol=0, atol=1e-12)


def test_cosine_dot_and_scaled_dot_are_one_model_in_scan():
    images, words, lengths, _ = random_inputs()
    first, *others = [all_pairs(matcher(17, name), images, words, lengths) for name in ("cosine", "dot", "scaled_dot")]
    for other in others:
        torch.testing.assert_close(first, other, rtol=0, atol=1e-5)
    classes = {name: Scan(vocab_size=5, region_dim=3, dim=7, alignment=name).describe() for name in ALIGNMENTS}
    assert {classes[name].equivalence for name in ("cosine", "dot", "scaled_dot")} == {"dot"}
    assert {classes[name].equivalence for name in ("general_query", "general_key")} == {"general"}
    assert classes["biased_key"].equivalence == "biased_key", "the normaliser sees the bias, so it does not cancel"
    assert [classes[name].parameters for name in ("dot", "general_key", "biased_query")] == [0, 49, 56]


def test_scaled_dot_differs_where_the_normaliser_feels_the_scale():
    images, words, lengths, _ = random_inputs()
    one, other = [
        all_pairs(matcher(17, n, normalizer="no_norm"), images, words, lengths) for n in ("dot", "scaled_dot")
    ]
    assert (one - other).abs().max() > 1e-3
    net = Scan(vocab_size=5, region_dim=3, dim=7, alignment="scaled_dot", normalizer="no_norm")
    assert net.describe().equivalence == "scaled_dot"


def test_tape_hears_own_pairs_and_reproduces_the_context():
    net = Scan(vocab_size=19, region_dim=5, dim=17, word_dim=3, alignment="activated").double().eval()
    tokens = torch.randint(1, 19, (7, 11))
    token_mask = words_mask(torch.tensor([11, 3, 5, 1, 7, 2, 4]), 11)
    region_mask = torch.rand(3, 13) < 0.8
    owner = torch.tensor([0, 0, 1, 1, 2, 2, 2])
    with AttentionTape(net) as tape:
        scores = net(torch.randn(3, 13, 5, dtype=torch.float64), region_mask, tokens, token_mask, owner)
    (record,) = tape["match"]
    assert record.weights.shape == (7, 1, 11, 13)
    torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)
    sums = record.weights.sum(-1)[:, 0]
    torch.testing.assert_close(sums, token_mask.double(), rtol=0, atol=1e-12)
    assert record.weights[~region_mask[owner][:, None, None].expand_as(record.weights)].eq(0).all()
    relevance = torch.nn.functional.cosine_similarity(
        net.text_encoder(tokens, token_mask), record.context[:, 0], dim=-1
    )
    wanted = (relevance * token_mask).sum(-1) / token_mask.sum(-1)
    torch.testing.assert_close(scores[owner, torch.arange(7)], wanted, rtol=0, atol=1e-9)


def test_layout_bug_is_refused_where_the_study_had_none():
    with pytest.raises(UserError, match="paper_layout_bug exists for direction=text_to_image only"):
        matcher(direction="image_to_text", paper_layout_bug=True)


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_gradients_of_a_similarity_with_respect_to_attention(direction):
    """The similarity is a cosine of the query with weights @ key: its derivative can be written down."""
    images, words, lengths, region_mask = random_inputs(pictures=7)
    module = matcher(17, "general_key", direction, pooling="sum")
    mask = words_mask(lengths, 11)
    with AttentionTape(module, gradients=True) as tape:
        (gradient,) = tape.gradients_of(module.aligned(words, mask, images, region_mask)[3])
    (record,) = tape.records
    query, key = (words, images) if direction == "text_to_image" else (images, words)
    for q in range(query.shape[1]):
        context, unit = record.context[3, 0, q].detach(), query[3, q]
        if not record.query_mask[3, q]:
            assert gradient[3, 0, q].eq(0).all()
            continue
        by_context = unit / context.norm() - (unit @ context) * context / context.norm() ** 3
        torch.testing.assert_close(gradient[3, 0, q], key[3] @ by_context / unit.norm(), rtol=0, atol=1e-9)
    assert gradient[:3].eq(0).all()
