"""Does the captioner compute what the published network computes, with any alignment and any number of boxes?"""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from lit_attn.errors import UserError
from lit_attn.models.captioner import Captioner
from lit_attn.models.captioner_weights import convert, our_name, settings_of
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.tape import AttentionTape, sites_of
from lit_attn.ops.loss import next_word_loss
from lit_attn.ops.schedule import noam
from tests.reference.published import golden_file, published_net

B, R, F, D, H, V = 3, 7, 11, 12, 3, 13
MODELS = ["main", "legacy", "raw4", "bn1", "bn2"]


def small(**options) -> Captioner:
    settings = {"vocab_size": V, "region_dim": F, "dim": D, "num_heads": H, "hidden": 17, "encoder_layers": 2,
                "decoder_layers": 2}  # fmt: skip
    return Captioner(**(settings | options)).double().eval()


def inputs(regions: int = R):
    """Pictures with 7, 2 and 5 boxes; four captions of different lengths."""
    mask = torch.arange(regions) < torch.tensor([regions, 2, 5])[:, None].clamp_max(regions)
    features, corners = torch.randn(B, regions, F).double(), torch.rand(B, regions, 4).double()
    boxes = torch.cat([corners[..., :2] / 2, corners[..., :2] / 2 + corners[..., 2:] / 2], -1)
    tokens = torch.tensor([[0, 4, 2, 12, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 3, 3, 0, 0]])
    return features * mask[..., None], boxes * mask[..., None], mask, tokens, torch.tensor([0, 1, 1, 2])


def published_inputs(arrays):
    return (
        arrays["att_feats"].double(), arrays["boxes"].double(), arrays["att_masks"].bool(), arrays["labels"],
        torch.arange(len(arrays["labels"])),
    )  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_equals_the_original(golden, name):
    given, expected = golden("ort/model_main_io.npz"), golden(f"ort/model_{name}_io.npz")
    net, (regions, boxes, mask, tokens, owner) = published_net(name), published_inputs(given)
    memory, logprobs = net.encode(regions, boxes, mask), net(regions, boxes, mask, tokens, owner)
    torch.testing.assert_close(memory[mask], expected["memory_f64"][mask], rtol=0, atol=1e-9)
    rows = given["valid_rows"]
    torch.testing.assert_close(logprobs[rows], expected["logprobs_f64"][rows], rtol=0, atol=1e-9)


def test_equals_the_original_with_equal_boxes_and_with_the_skip_switched_on(golden):
    arrays = golden("ort/model_main_equal_boxes_io.npz")
    mask = torch.ones(arrays["boxes"].shape[:2], dtype=torch.bool)
    net, rows = published_net("main"), arrays["valid_rows"]
    found = net(arrays["att_feats"].double(), arrays["boxes"].double(), mask, arrays["labels"], torch.arange(4))
    torch.testing.assert_close(found[rows], arrays["logprobs_f64"][rows], rtol=0, atol=1e-9)
    given, expected = golden("ort/model_main_io.npz"), golden("ort/model_main_legacy_on_io.npz")
    found, rows = published_net("main", legacy_extra_skip=True)(*published_inputs(given)), given["valid_rows"]
    torch.testing.assert_close(found[rows], expected["logprobs_f64"][rows], rtol=0, atol=1e-9)


def test_attention_equals_the_original(golden):
    arrays = golden("ort/model_main_io.npz")
    net = published_net("main")
    with AttentionTape(net) as tape:
        net(*published_inputs(arrays))
    boxes, rows = arrays["att_masks"].bool(), arrays["valid_rows"]
    for layer in range(2):
        for site, name, real in (
            (f"encoder.{layer}.self", "encoder_attention_f64", boxes),
            (f"decoder.{layer}.self", "decoder_self_attention_f64", rows),
            (f"decoder.{layer}.cross", "cross_attention_f64", rows),
        ):
            found, expected = tape[site][0].weights.transpose(1, 2), arrays[name][layer].transpose(1, 2)
            torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["main", "legacy"])
def test_raw_capture_equals_the_published_fork(golden, name):
    given, expected = golden("ort/model_main_io.npz"), golden("ort/fork_capture.npz")
    net = published_net(name, capture="raw_residual")
    for i in range(7):
        boxes, tokens = given["att_masks"][i].bool(), given["labels"][i]
        opened = tokens[None, : int((tokens > 0).sum()) + 1]
        with AttentionTape(net, "raw.*") as tape:
            net(given["att_feats"][i : i + 1, boxes].double(), given["boxes"][i : i + 1, boxes].double(),
                boxes[boxes][None], opened, torch.zeros(1, dtype=torch.long))  # fmt: skip
        for layer in range(2):
            for site, kind in (
                ("encoder.{}.self", "encoder"),
                ("decoder.{}.self", "decoder_self"),
                ("decoder.{}.cross", "cross"),
            ):
                found = tape[f"raw.{site.format(layer)}"][0].weights[0]
                wanted = expected[f"{name}_image{i}_{kind}_raw_f64"][layer]
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def test_raw_and_used_capture_of_six_layers(golden):
    arrays = golden("ort/fork_capture_six_layers.npz")
    net = published_net("six_layers", capture="raw_residual")
    opened = arrays["labels"][:1, : int((arrays["labels"][0] > 0).sum()) + 1]
    with AttentionTape(net) as tape:
        net(arrays["att_feats"][:1].double(), arrays["boxes"][:1].double(), torch.ones(1, 36, dtype=torch.bool), opened,
            torch.zeros(1, dtype=torch.long))  # fmt: skip
    for layer in range(6):
        for site, kind in ((f"decoder.{layer}.self", "decoder_self"), (f"decoder.{layer}.cross", "cross")):
            raw, used = tape[f"raw.{site}"][0].weights[0], tape[site][0].weights[0]
            torch.testing.assert_close(raw, arrays[f"six_image0_{kind}_raw_f64"][layer], rtol=0, atol=1e-9)
            torch.testing.assert_close(used, arrays[f"six_image0_{kind}_used_f64"][layer], rtol=0, atol=1e-9)


def test_three_training_steps_equal_the_original(golden):
    arrays = golden("ort/train_step.npz")
    net = published_net("main", dropout=0.0, region_dropout=0.0).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    for step in range(3):
        logprobs = net(*published_inputs(arrays))
        loss = next_word_loss(logprobs, arrays["labels"][:, 1:], arrays["label_mask"][:, 1:].bool())
        assert loss.item() == pytest.approx(arrays["loss_f64"][step].item(), abs=1e-9)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            gradients = convert(load_file(golden_file("train_step_gradients.safetensors")))
            for name, parameter in net.named_parameters():
                torch.testing.assert_close(parameter.grad, gradients[name].double(), rtol=1e-6, atol=1e-7)
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        optimizer.param_groups[0]["lr"] = noam(step + 1, 32, 10)
        optimizer.step()
        if step in (0, 2):
            weights = convert(load_file(golden_file(f"train_step{step + 1}_weights.safetensors")))
            for name, parameter in net.named_parameters():
                torch.testing.assert_close(parameter.detach(), weights[name].double(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("options", [{}, {"legacy_extra_skip": True, "geometry": "raw", "norm": "standard"}])
def test_every_record_times_values_is_the_context_that_was_used(alignment, options):
    net = small(alignment=alignment, capture="raw_residual", **options)
    with AttentionTape(net) as tape:
        net(*inputs())
    assert len(tape.records) == len(sites_of(net)) == 2 * (2 + 2 + 2)
    for record in tape:
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)
        sums = record.weights.sum(-1).transpose(1, 2)[record.query_mask]
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-12)


def test_listening_changes_nothing():
    net, given = small(capture="raw_residual", alignment="general_key"), inputs()
    with AttentionTape(net):
        heard = net(*given)
    torch.testing.assert_close(heard, net(*given), rtol=0, atol=1e-12)


def test_geometry_matters_to_every_alignment():
    regions, boxes, mask, _, _ = inputs()
    for alignment in ALIGNMENTS:
        net = small(alignment=alignment)
        moved = boxes.clone()
        moved[:, 0] = torch.tensor([0.9, 0.9, 1.0, 1.0]).double()
        assert (net.encode(regions, boxes, mask) - net.encode(regions, moved, mask)).abs().max() > 1e-6, alignment


def test_each_kind_of_site_may_have_its_own_alignment():
    net = small(alignment="dot", cross_alignment="biased_query", encoder_alignment="cosine")
    described = net.describe()
    assert described.name == "encoder cosine, decoder dot, cross biased_query"
    assert described.parameters == 2 * ((D // H) ** 2 + D // H)
    assert small(alignment="general_key").describe().equivalence == "general"


def test_more_padding_changes_nothing():
    regions, boxes, mask, tokens, owner = inputs()
    net = small()
    wide = [torch.cat([x, 9 * torch.rand(B, 4, x.shape[-1]).double()], 1) for x in (regions, boxes)]
    wide_mask = torch.cat([mask, torch.zeros(B, 4, dtype=torch.bool)], 1)
    long = torch.cat([tokens, torch.zeros(4, 3, dtype=torch.long)], 1)
    expected, found = net(regions, boxes, mask, tokens, owner), net(*wide, wide_mask, long, owner)
    real = torch.tensor([4, 2, 1, 3])
    for c, rows in enumerate(real.tolist()):
        torch.testing.assert_close(found[c, :rows], expected[c, :rows], rtol=0, atol=1e-12)


def test_captions_of_one_picture_do_not_see_each_other_or_other_pictures():
    regions, boxes, mask, tokens, owner = inputs()
    net = small()
    together = net(regions, boxes, mask, tokens, owner)
    for c in range(4):
        i = owner[c : c + 1]
        alone = net(regions[i], boxes[i], mask[i], tokens[c : c + 1], torch.zeros(1, dtype=torch.long))
        torch.testing.assert_close(alone[0], together[c], rtol=0, atol=1e-12)


def test_a_word_sees_only_the_words_before_it():
    regions, boxes, mask, tokens, owner = inputs()
    net = small()
    other = tokens.clone()
    other[0, 2] = 7
    before, after = net(regions, boxes, mask, tokens, owner)[0], net(regions, boxes, mask, other, owner)[0]
    torch.testing.assert_close(before[:2], after[:2], rtol=0, atol=1e-12)
    assert (before[2] - after[2]).abs().max() > 1e-6


@pytest.mark.parametrize("count", [0, 1, 101])
def test_any_number_of_boxes(count):
    net = small()
    regions, boxes = torch.randn(2, count, F).double(), torch.rand(2, count, 4).double()
    mask = torch.ones(2, count, dtype=torch.bool)
    found = net(regions, boxes, mask, torch.tensor([[0, 1, 2, 0]]), torch.tensor([1]))
    assert found.shape == (1, 3, V)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(1, 3).double())


def test_training_on_a_picture_without_boxes_gives_finite_gradients():
    net = small().train()
    regions, boxes, mask, tokens, owner = inputs()
    mask = mask & torch.tensor([True, False, True])[:, None]
    net(regions, boxes, mask, tokens, owner).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_stepwise_equals_all_at_once(alignment):
    net = small(alignment=alignment, legacy_extra_skip=True)
    regions, boxes, mask, _, _ = inputs()
    tokens = torch.tensor([[0, 4, 2, 12], [0, 1, 5, 6], [0, 3, 3, 8]])
    expected = net(regions, boxes, mask, torch.nn.functional.pad(tokens, (0, 1)), torch.arange(3))
    state = net.start(regions, boxes, mask)
    for t in range(4):
        found, state = net.step(tokens[:, t : t + 1], state)
        torch.testing.assert_close(found[:, 0], expected[:, t], rtol=0, atol=1e-12)


def test_beams_of_a_picture_are_independent_and_can_be_reordered():
    net = small()
    regions, boxes, mask, _, _ = inputs()
    texts = torch.tensor([[[0, 4, 2], [0, 1, 5]], [[0, 3, 3], [0, 8, 9]], [[0, 6, 6], [0, 2, 1]]])  # b w t
    state, swapped = net.start(regions, boxes, mask), torch.tensor([[1, 0], [1, 1], [0, 0]])
    for t in range(2):
        _, state = net.step(texts[:, :, t], state)
    follow = texts.gather(1, swapped[..., None].expand(-1, -1, 3))
    found, _ = net.step(follow[:, :, 2], state.reordered(swapped))
    flat = torch.nn.functional.pad(follow.flatten(0, 1), (0, 1))
    expected = net(regions, boxes, mask, flat, torch.arange(3).repeat_interleave(2))[:, 2]
    torch.testing.assert_close(found.flatten(0, 1), expected, rtol=0, atol=1e-12)


def test_initial_weights_are_as_published():
    net = Captioner(vocab_size=9488)
    assert sum(p.numel() for p in net.parameters()) == 54_917_952
    bound = (6 / (512 + 512)) ** 0.5
    weight = net.decoder[3].cross_attn.key.weight
    assert bound * 0.99 < weight.abs().max() <= bound
    assert net.embed.weight.data_ptr() != net.generator.weight.data_ptr()


def test_bad_sizes_are_named():
    with pytest.raises(UserError, match="vocab_size=1"):
        small(vocab_size=1)
    with pytest.raises(UserError, match="dim=15"):
        small(dim=15)
    with pytest.raises(UserError, match="dim=12, heads=5"):
        small(num_heads=5)


def test_foreign_weights_are_refused():
    with pytest.raises(UserError, match="fc.weight"):
        our_name("fc.weight")
    with pytest.raises(UserError, match="missing"):
        settings_of({"embed.weight": torch.zeros(3, 2)})
