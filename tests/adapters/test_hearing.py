"""Is what tapes hear of foreign networks what these networks used, and do they stay as they were?"""

import copy
import threading

import pytest
import torch
from torch import nn

from lit_attn.adapters import encoder
from lit_attn.adapters.load import adapt
from lit_attn.attribution.capture import capture
from lit_attn.attribution.explain import METHODS, explain
from lit_attn.attribution.lrp import lrp
from lit_attn.attribution.targets import best, score_of
from lit_attn.nn.tape import AttentionTape, sites_of
from tests.adapters.worlds import WORLDS, ids, text


@pytest.fixture(params=WORLDS)
def world(request):
    return WORLDS[request.param]()


def main_output(output):
    """The tensors of an output, whatever holds them."""
    values = [output] if isinstance(output, torch.Tensor) else list(output.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


def test_weights_times_values_are_the_context_at_every_site(world):
    net = adapt(world.net)
    assert [site.name for site in sites_of(net)] == world.sites
    with torch.no_grad():
        expected = main_output(world.net(**world.inputs))
        with AttentionTape(net) as tape:
            found = main_output(net(**world.inputs))
    assert sorted(record.site.name for record in tape) == sorted(world.sites)
    for record in tape:
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-6)
        assert record.weights.shape[1] == record.site.num_heads
        allowed = (record.query_mask.unsqueeze(-1) & record.key_mask).unsqueeze(1)
        assert not record.weights[(record.query_mask[:, None, :, None] & ~allowed).expand_as(record.weights)].any()
        rows = record.weights.sum(-1)[record.query_mask.unsqueeze(1).expand(-1, record.weights.shape[1], -1)]
        torch.testing.assert_close(rows, torch.ones_like(rows))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_the_context_goes_on_into_the_network(world):
    """Without it, the output would not depend on the weights: each map changes the sum of all outputs."""
    net = adapt(world.net)
    heard = capture(net, lambda net: net(**world.inputs))
    target = sum(value.square().sum() for value in main_output(heard.output) if value.is_floating_point())
    gradients = torch.autograd.grad(target, [r.context for r in heard.records], retain_graph=True, allow_unused=True)
    silent = {r.site.name for r, g in zip(heard.records, gradients, strict=True) if g is None or not g.any()}
    last = {"cross.1.visual", "cross.1.visual_self"}  # the last boxes of LXMERT answer nothing
    assert silent <= last


def test_gradients_are_those_of_the_maps_that_the_network_returns(world):
    if world.maps is None:
        pytest.skip("this network returns no maps through which gradients pass")
    net = adapt(world.net)
    heard = capture(net, lambda net: net(**world.inputs, output_attentions=True))
    returned = world.maps(heard.output)
    target = world.scores(heard.output)[:, 1].sum()
    expected = torch.autograd.grad(target, returned, retain_graph=True, allow_unused=True)
    found = dict(zip((r.site.name for r in heard.records), heard.tape.gradients_of(target), strict=True))
    weights = {r.site.name: r.weights for r in heard.records}
    assert len(returned) == len(world.mapped)
    for name, one, gradient in zip(world.mapped, returned, expected, strict=True):
        assert torch.equal(weights[name], one)
        torch.testing.assert_close(found[name], torch.zeros_like(one) if gradient is None else gradient)


def test_weights_act_through_the_context_alone(world):
    """The gradient of the weights follows from that of the context, whether or not the network returns its maps."""
    net = adapt(world.net)
    heard = capture(net, lambda net: net(**world.inputs))
    target = score_of(world.scores(heard.output), 1)
    record, gradient = heard.records[0], heard.gradients_of(target)[0]
    (upper,) = torch.autograd.grad(target.sum(), record.context)
    torch.testing.assert_close(gradient, upper @ record.value.mT, rtol=1e-6, atol=1e-10)


def test_every_method_explains_it_alone_or_in_a_batch(world, caplog):
    net = adapt(world.net)
    plan = net.plan(world.row)
    together = explain(net, plan, lambda net: world.scores(net(**world.inputs)), best, list(METHODS))
    for sample in range(3):
        own = world.alone(sample)
        alone = explain(
            net, net.plan(world.row_of(sample)), lambda net, own=own, s=sample: world.scores(net(**own), s), best,
            list(METHODS),
        )  # fmt: skip
        for method, found in together.items():
            assert set(found.streams) == world.streams
            if method != "grad_cam":  # which is 0 where the target likes no head
                assert any(values.abs().sum() > 0 for values in found.streams.values()), method
            for name, values in found.streams.items():
                assert values.isfinite().all()
                real = found.masks[name][sample]
                assert not values[sample, ~real].any()
                expected = alone[method].streams[name][0]
                if len(expected) != real.sum():
                    expected = expected[alone[method].masks[name][0]]
                torch.testing.assert_close(values[sample, real], expected, rtol=1e-5, atol=1e-6, msg=f"{method} {name}")
    causal = [record for record in caplog.records if "is causal" in record.message]
    assert bool(causal) == any(site.predicts for site in sites_of(net)) or "target" in world.streams


def test_the_rules_of_lrp_compute_what_the_network_computes(world):
    """Also where it adds in place, as VisualBERT's embeddings and DETR's backbone do."""
    net = adapt(world.net)
    plain = capture(net, lambda net: net(**world.inputs))
    ruled = capture(net, lambda net: net(**world.inputs), rules=lrp(net))
    for one, other in zip(main_output(ruled.output), main_output(plain.output), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    for one, other in zip(ruled.records, plain.records, strict=True):
        torch.testing.assert_close(one.weights, other.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", sorted(set(encoder.FAMILIES) - set(WORLDS)))
def test_every_relative_of_bert_is_heard(kind):
    world = text(kind)
    net = adapt(world.net)
    with torch.no_grad():
        expected = world.net(**world.inputs)[0]
        with AttentionTape(net) as tape:
            found = net(**world.inputs)[0]
    assert [record.site.name for record in tape] == world.sites
    for record in tape:
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-6)
        assert torch.equal(record.query_mask, world.inputs["attention_mask"].bool())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def _stumble(*_):
    raise ZeroDivisionError


def test_nothing_is_left_behind(world):
    before = {name: set(module.__dict__) for name, module in world.net.named_modules()}
    implementation = getattr(getattr(world.net, "config", None), "_attn_implementation", None)
    fast = torch.backends.mha.get_fastpath_enabled()
    net = adapt(world.net).train()
    for _ in range(2):
        explain(net, net.plan(world.row), lambda net: world.scores(net(**world.inputs)), best, ["gae"])
    handle = world.net.get_submodule(net.spots[-1].module).register_forward_hook(_stumble)
    with pytest.raises(ZeroDivisionError), AttentionTape(net):
        net(**world.inputs)
    handle.remove()
    assert {name: set(module.__dict__) for name, module in world.net.named_modules()} == before
    assert getattr(getattr(world.net, "config", None), "_attn_implementation", None) == implementation
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in world.net.modules())
    assert all(module.training for module in world.net.modules())


def test_a_network_is_heard_whatever_its_state():
    """Training, frozen, fused, compiled in place or as a whole, copied: the same scores."""
    world = WORLDS["bert"]()
    assert world.net.config._attn_implementation == "sdpa"

    def gae(net):
        found = explain(net, adapt(net).plan(), lambda net: world.scores(net(**world.inputs)), best, ["gae"])
        return found["gae"].streams["text"]

    expected = gae(adapt(world.net))
    assert torch.equal(gae(adapt(torch.compile(world.net))), expected)
    assert torch.equal(gae(torch.compile(adapt(world.net))), expected)
    assert torch.equal(gae(copy.deepcopy(adapt(world.net))), expected)
    assert torch.equal(gae(adapt(world.net).train().requires_grad_(False)), expected)
    world.net.encoder.compile(backend="eager")
    try:
        assert torch.equal(gae(adapt(world.net)), expected)
        assert world.net.encoder._compiled_call_impl is not None
    finally:
        world.net.encoder._compiled_call_impl = None
    assert adapt(net := adapt(world.net)) is net


def test_half_of_the_sites_of_a_shared_module_can_be_heard():
    """Turns are counted whether or not a tape listens."""
    world = WORLDS["lxmert"]()
    net = adapt(world.net)
    with torch.no_grad(), AttentionTape(net, "cross.*.visual") as tape:
        net(**world.inputs)
    assert [record.site.name for record in tape] == ["cross.0.visual", "cross.1.visual"]
    for record in tape:
        assert record.weights.shape == (3, 3, 4, 7)
        assert record.query_mask.sum(1).tolist() == [4, 4, 2]
        assert record.key_mask.any(1).sum(1).tolist() == [7, 3, 5]


def test_masks_are_known_even_without_layers_of_their_own():
    world = WORLDS["lxmert"]()
    world.net.lxmert.encoder.layer = nn.ModuleList()
    net = adapt(world.net)
    with torch.no_grad(), AttentionTape(net) as tape:
        net(**world.inputs)
    (first,) = tape["cross.0.language"]
    assert first.query_mask.sum(1).tolist() == [7, 3, 5]


def test_another_thread_is_not_heard():
    world = WORLDS["bert"]()
    net = adapt(world.net)
    outputs = []

    def other() -> None:
        with torch.no_grad():
            outputs.append(world.net(**world.inputs)[0])

    def during(*_) -> None:
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    handle = world.net.encoder.layer[0].register_forward_hook(during)
    with torch.no_grad(), AttentionTape(net) as tape:
        found = net(**world.inputs)[0]
    handle.remove()
    assert [record.site.name for record in tape] == world.sites
    torch.testing.assert_close(outputs[0], found)


def test_left_padding_of_gpt2_hides_what_does_not_exist():
    world = WORLDS["gpt2"]()
    net = adapt(world.net)
    given = ids(5, 3)
    flipped = {name: value.flip(1) for name, value in given.items()}
    with torch.no_grad(), AttentionTape(net) as tape:
        net(**flipped)
    for record in tape:
        assert torch.equal(record.query_mask, flipped["attention_mask"].bool())
        seen = torch.ones(5, 5, dtype=torch.bool).tril() & flipped["attention_mask"][:, None].bool()
        assert torch.equal(record.key_mask, seen)
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-6)


def test_float32_networks_are_heard_too():
    world = WORLDS["vit"]()
    net = adapt(world.net.float())
    with torch.no_grad(), AttentionTape(net) as tape:
        net(world.inputs["pixel_values"].float())
    for record in tape:
        assert record.weights.dtype == torch.float32
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-6)


def test_a_first_feature_is_where_gradients_begin(world):
    net = adapt(world.net)
    if not net.embeddings:
        pytest.skip("the inputs of this network are its features")
    with net.embedded() as found:
        output = net(**world.inputs)
    target = world.scores(output)[:, 1].sum()
    known = world.streams | {"image"}
    assert set(found) <= known
    for features in found.values():
        assert features.dim() == 3
        (gradient,) = torch.autograd.grad(target, features, retain_graph=True)
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0
    assert not any(module._forward_hooks for module in world.net.modules())
