"""Can every network of ours be explained by every method, alone or in a batch, whatever state it is in?"""

from dataclasses import fields

import pytest
import torch
from torch import Tensor, nn

from lit_attn.attribution.capture import capture
from lit_attn.attribution.explain import METHODS, explain
from lit_attn.attribution.plan import Plan
from lit_attn.attribution.plans import plan_of
from lit_attn.attribution.targets import best, difference, ratio, score_of
from lit_attn.errors import UserError
from lit_attn.models.captioner import Captioner
from lit_attn.models.m4c import M4C
from lit_attn.models.mac import Mac
from lit_attn.models.scan import Scan
from lit_attn.types import ReadingBatch

ON_MAPS = [name for name, method in METHODS.items() if not method.relevance]


def cut(mask: Tensor, *tensors: Tensor) -> list[Tensor]:
    """One sample's tensors without padding, along axis 1."""
    length = int(mask.sum())
    return [tensor[:, :length] for tensor in tensors]


class Captions:
    """Three pictures with a caption each, of different sizes."""

    def __init__(self) -> None:
        self.net = Captioner(
            vocab_size=13, region_dim=11, dim=12, num_heads=3, hidden=17, encoder_layers=2, decoder_layers=2
        ).double()
        self.mask = torch.arange(7) < torch.tensor([[7], [2], [5]])
        corners = torch.rand(3, 7, 4).double()
        self.boxes = torch.cat([corners[..., :2] / 2, corners[..., :2] / 2 + corners[..., 2:] / 2], -1)
        self.regions = torch.randn(3, 7, 11).double()
        self.tokens = torch.tensor([[0, 4, 2, 12, 0], [0, 1, 0, 0, 0], [0, 3, 3, 0, 0]])
        self.rows, self.streams = (2, 1, 0), {"words", "regions"}

    def forward(self, sample: int | None = None):
        inputs = [self.regions, self.boxes, self.mask, self.tokens]
        rows = self.rows
        if sample is not None:
            rows = (rows[sample],)
            inputs = [one[sample : sample + 1] for one in inputs]
            inputs[:3] = cut(inputs[2], *inputs[:3])
            length = int((inputs[3][0, 1:] > 0).sum()) + 2
            inputs[3] = inputs[3][:, :length]
        index = torch.arange(len(rows))
        return lambda net: net(*inputs, index)[index, torch.tensor(rows)]


class Answers:
    """Three questions with objects and OCR tokens, of different sizes, and a step of the answer each."""

    def __init__(self) -> None:
        self.net = M4C(
            vocab_size=19, num_answers=5, region_dim=7, word_vector_dim=6, phoc_dim=8, dim=12, num_heads=3, hidden=17,
            layers=2, text_layers=2, max_steps=4, init_std=0.3,
        ).double()  # fmt: skip

        def mask(size: int, *counts: int) -> Tensor:
            return torch.arange(size) < torch.tensor(counts)[:, None]

        def draw(*shape: int) -> Tensor:
            return torch.randn(3, *shape).double()

        self.batch = ReadingBatch(
            question_id=torch.arange(3), image_id=torch.arange(3), tokens=torch.randint(0, 19, (3, 5)),
            token_mask=mask(5, 5, 1, 3), regions=draw(7, 7), boxes=draw(7, 4).abs(), region_mask=mask(7, 7, 0, 4),
            ocr_vectors=draw(11, 6), ocr_phoc=draw(11, 8), ocr_regions=draw(11, 7), ocr_boxes=draw(11, 4).abs(),
            ocr_mask=mask(11, 1, 11, 6), previous=torch.tensor([[1, 4, 3, 2], [1, 4, 3, 0], [1, 3, 0, 0]]),
            targets=draw(4, 16), step_mask=mask(4, 4, 3, 2), words=((),) * 3, ocr_words=((),) * 3, answers=((),) * 3,
        )  # fmt: skip
        self.rows, self.streams = (3, 2, 0), {"question", "objects", "ocr", "decoded"}

    def forward(self, sample: int | None = None):
        batch, rows = self.batch, self.rows
        if sample is not None:
            rows = (rows[sample],)
            values = {f.name: getattr(batch, f.name) for f in fields(batch)}
            values = {k: v[sample : sample + 1] if v is not None and len(v) else v for k, v in values.items()}
            for name, group in (
                ("token_mask", ("tokens",)),
                ("region_mask", ("regions", "boxes")),
                ("ocr_mask", ("ocr_vectors", "ocr_phoc", "ocr_regions", "ocr_boxes")),
                ("step_mask", ("previous", "targets")),
            ):
                kept = cut(values[name], *(values[one] for one in (*group, name)))
                values |= dict(zip((*group, name), kept, strict=True))
            batch = ReadingBatch(**values)
        return lambda net: net(batch)[torch.arange(len(rows)), torch.tensor(rows), :5]


class Reasoning:
    """Three questions about a picture each."""

    def __init__(self) -> None:
        self.net = Mac(vocab_size=17, num_answers=5, grid_dim=6, dim=8, word_dim=7, steps=3).double()
        self.grid, self.tokens = torch.randn(3, 6, 2, 3).double(), torch.randint(1, 17, (3, 7))
        self.mask = torch.arange(7) < torch.tensor([[7], [2], [5]])
        self.rows, self.streams = 0, {"memory", "words", "cells"}

    def forward(self, sample: int | None = None):
        inputs = [self.grid, self.tokens, self.mask]
        if sample is not None:
            inputs = [one[sample : sample + 1] for one in inputs]
            inputs[1:] = cut(inputs[2], *inputs[1:])
        return lambda net: net(*inputs, torch.arange(len(inputs[0])))


WORLDS = {"captioner": Captions, "m4c": Answers, "mac": Reasoning}


@pytest.fixture(params=WORLDS)
def world(request):
    return WORLDS[request.param]()


def test_every_method_explains_every_network_alone_or_in_a_batch(world):
    """Padding changes nothing, in any method; scores are finite, and some are not 0."""
    methods = list(METHODS) if not isinstance(world, Reasoning) else ON_MAPS
    plan = plan_of(world.net, world.rows)
    together = explain(world.net, plan, world.forward(), best, methods)
    assert list(together) == methods
    for sample in range(3):
        row = world.rows if isinstance(world.rows, int) else (world.rows[sample],)
        alone = explain(world.net, plan.at(row), world.forward(sample), best, methods)
        for method in methods:
            found, expected = together[method], alone[method]
            assert set(found.streams) == world.streams
            assert any(values.abs().sum() > 0 for values in found.streams.values()), method
            for name, values in found.streams.items():
                real = found.masks[name][sample]
                assert values.isfinite().all()
                assert not values[sample, ~real].any()
                own = expected.streams[name][0]
                torch.testing.assert_close(values[sample, real], own, rtol=1e-6, atol=1e-7, msg=f"{method} {name}")


def test_rollout_of_one_row_is_a_distribution_over_all_inputs(world):
    found = explain(world.net, plan_of(world.net, world.rows), world.forward(), best, ["rollout", "flow"])
    total = sum(values.sum(-1) for values in found["rollout"].streams.values())
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64))
    assert found["flow"].notes["saturation"].shape == (3,)
    assert not found["rollout"].notes


def test_nothing_about_the_network_is_changed():
    world = Captions()
    net = world.net.train()
    net.encoder.eval()
    frozen = net.decoder[0].attn.query.weight.requires_grad_(False)
    explain(net, plan_of(net, world.rows), world.forward(), best, list(METHODS))
    assert net.training
    assert net.decoder.training
    assert not net.encoder.training
    assert not frozen.requires_grad
    assert all(p.grad is None for p in net.parameters())
    assert not any(module._forward_hooks for module in net.modules())


def test_training_mode_and_frozen_weights_give_the_same_scores():
    """Dropout would not."""
    world = Captions()
    plan = plan_of(world.net, world.rows)
    expected = explain(world.net.eval(), plan, world.forward(), best, ["gae", "t_attr"])
    found = explain(world.net.train().requires_grad_(False), plan, world.forward(), best, ["gae", "t_attr"])
    for method, scores in expected.items():
        for name, values in scores.streams.items():
            assert torch.equal(found[method].streams[name], values)


def test_inference_mode_is_left_and_its_inputs_are_named():
    world = Reasoning()
    plan, forward = plan_of(world.net), world.forward()
    inputs = world.tokens, world.mask, torch.arange(3)
    expected = explain(world.net, plan, forward, best, ["gae"])["gae"].streams["cells"]
    with torch.inference_mode():
        found = explain(world.net, plan, forward, best, ["gae"])["gae"].streams["cells"]
        assert torch.equal(found, expected)
        grid = world.grid.clone()
        with pytest.raises(UserError, match="Clone them inside `forward`"):
            explain(world.net, plan, lambda net: net(grid, *inputs), best, ["gae"])
        found = explain(world.net, plan, lambda net: net(grid.clone(), *inputs), best, ["gae"])
    assert torch.equal(found["gae"].streams["cells"], expected)


def test_a_compiled_network_is_unwrapped():
    world = Reasoning()
    compiled = torch.compile(world.net)
    found = explain(compiled, plan_of(compiled), world.forward(), best, ["heterogenous"])
    expected = explain(world.net, plan_of(world.net), world.forward(), best, ["heterogenous"])
    assert torch.equal(found["heterogenous"].streams["words"], expected["heterogenous"].streams["words"])


def test_raw_sites_are_left_out():
    world = Captions()
    raw = Captioner(
        vocab_size=13, region_dim=11, dim=12, num_heads=3, hidden=17, encoder_layers=2, decoder_layers=2,
        capture="raw_residual",
    ).double()  # fmt: skip
    raw.load_state_dict(world.net.state_dict())
    expected = explain(world.net, plan_of(world.net, world.rows), world.forward(), best, ["gae"])["gae"]
    found = explain(raw, plan_of(raw, world.rows), world.forward(), best, ["gae"])["gae"]
    assert torch.equal(found.streams["regions"], expected.streams["regions"])


def test_plans_name_every_site_in_order():
    plan = plan_of(Captions().net, 3)
    assert [event.site for event in plan] == [
        "encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross",
    ]  # fmt: skip
    assert plan.target.row == 3
    plan = plan_of(Answers().net)
    assert [(event.site, event.part) for event in plan] == [
        ("text.0.self", "question"), ("text.1.self", "question"), ("joint.0.self", None), ("joint.1.self", None),
    ]  # fmt: skip
    plan = plan_of(Reasoning().net)
    assert [[(e.site, e.call) for e in group] for group in plan.groups] == [
        [("control", step), ("read", step)] for step in range(3)
    ]


def test_networks_without_layers_are_refused_with_a_reason():
    with pytest.raises(UserError, match="Scan has no layers to follow: at 'match' \\(words to regions\\)"):
        plan_of(Scan(vocab_size=7, region_dim=5, dim=4, word_dim=3))
    looking_back = Mac(vocab_size=5, num_answers=3, grid_dim=2, dim=4, word_dim=3, steps=2, self_attention=True)
    with pytest.raises(UserError, match="MAC with attention at 'self' reads memories of earlier steps"):
        plan_of(looking_back)
    with pytest.raises(UserError, match="Linear has no attention sites"):
        plan_of(nn.Linear(2, 3))
    with pytest.raises(UserError, match="Linear has no attention sites"):
        capture(nn.Linear(2, 3), lambda net: net(torch.ones(2)))


def test_a_plan_without_a_site_of_the_network_is_refused():
    world = Captions()
    plan = plan_of(world.net, world.rows)
    with pytest.raises(UserError, match="plan misses 'encoder.0.self'"):
        explain(world.net, Plan(plan.groups[1:], plan.target), world.forward(), best, ["rollout"])


def test_shared_pictures_are_refused():
    world = Captions()
    owner = torch.tensor([0, 0, 1])
    inputs = world.regions[:2], world.boxes[:2], world.mask[:2], world.tokens, owner
    plan = plan_of(world.net, 0)
    with pytest.raises(UserError, match="'encoder.0.self' has 2 samples and 'decoder.0.self' 3"):
        explain(world.net, plan, lambda net: net(*inputs)[:, 0], best, ["rollout"])


def test_unknown_methods_and_bad_targets_are_named():
    world = Reasoning()
    plan = plan_of(world.net)
    with pytest.raises(UserError, match="no method 'rolout'. Did you mean 'rollout'?"):
        explain(world.net, plan, world.forward(), best, ["rolout"])
    with pytest.raises(UserError, match="one number per sample: expected 3 numbers, got shape \\(\\)"):
        explain(world.net, plan, world.forward(), lambda output: output.sum(), ["raw"])
    with pytest.raises(UserError, match="target class 5 is out of range: there are 5 classes"):
        explain(world.net, plan, world.forward(), lambda output: score_of(output, 5), ["raw"])


def test_targets_compare_two_answers():
    scores = torch.tensor([[1.0, 4.0, 2.0], [3.0, 5.0, 6.0]])
    assert best(scores).tolist() == [4, 6]
    assert difference(scores, 1, torch.tensor([0, 2])).tolist() == [3, -1]
    assert ratio(scores, torch.tensor([1, 0]), 2).tolist() == [2, 0.5]


def test_lrp_of_another_pass_is_refused():
    """Relevance would belong to other maps than gradients do."""
    one = Captions()
    index = torch.arange(3)

    def forward(net):
        return net(torch.randn_like(one.regions), one.boxes, one.mask, one.tokens, index)[index, torch.tensor(one.rows)]

    plan = plan_of(one.net, row=one.rows)
    explain(one.net, plan, forward, best, ["gae"])
    with pytest.raises(UserError, match="draw no random numbers"):
        explain(one.net, plan, forward, best, ["t_attr"])
