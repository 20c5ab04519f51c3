"""Which inputs caused this output, by each method? One pass with gradients, then every method by name.

    plan = plan_of(net, row=3)
    scores = explain(net, plan, lambda net: net(*inputs)[:, 3], lambda output: best(output), ["rollout", "gae"])
    scores["gae"].streams["regions"]   # b r

Methods with LRP run the network a second time, under its rules.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lit_attn.attribution.by_inputs import INPUT_METHODS
from lit_attn.attribution.capture import Output, bare_net, capture
from lit_attn.attribution.flow import attention_flow
from lit_attn.attribution.gradcam import grad_cam
from lit_attn.attribution.heard import Heard, check_batch, read
from lit_attn.attribution.heterogenous import heterogenous_row, semantic
from lit_attn.attribution.lrp import lrp, partial_lrp, transformer_attribution
from lit_attn.attribution.plan import Plan
from lit_attn.attribution.raw import raw_attention
from lit_attn.attribution.relevance import gae
from lit_attn.attribution.rollout import rollout_row
from lit_attn.attribution.scores import Scores, by_stream
from lit_attn.attribution.subject import Subject
from lit_attn.errors import UserError, did_you_mean
from lit_attn.nn.tape import AttentionRecord


class Method(NamedTuple):
    """A way to score inputs, and what it needs beside the weights."""

    run: Callable[[Heard], Scores]
    gradients: bool = False
    relevance: bool = False


def _rows(score: Callable[[Heard], Float[Tensor, "b n"]]) -> Callable[[Heard], Scores]:
    return lambda heard: by_stream(heard, score(heard))


def _flow(heard: Heard) -> Scores:
    flow = attention_flow(heard)
    return by_stream(heard, flow.normalized, {"saturation": flow.saturation})


METHODS: dict[str, Method] = {
    "raw": Method(_rows(raw_attention)),
    "rollout": Method(_rows(rollout_row)),
    "rollout_corrected": Method(_rows(lambda heard: rollout_row(heard, causal="ratio"))),
    "flow": Method(_flow),
    "grad_cam": Method(_rows(grad_cam), gradients=True),
    "gae": Method(_rows(lambda heard: heard.target_row(gae(heard))), gradients=True),
    "heterogenous_pos": Method(_rows(heterogenous_row), gradients=True),
    "heterogenous_abs": Method(_rows(lambda heard: heterogenous_row(heard, "abs")), gradients=True),
    "heterogenous_noise": Method(_rows(lambda heard: heterogenous_row(heard, noise_link="rows")), gradients=True),
    "logical": Method(_rows(lambda heard: heterogenous_row(heard, "full")), gradients=True),
    "semantic": Method(_rows(semantic), gradients=True),
    "partial_lrp": Method(_rows(partial_lrp), relevance=True),
    "t_attr": Method(_rows(transformer_attribution), gradients=True, relevance=True),
}
"""By name. `logical` keeps signs: give it a target that compares two answers, such as `targets.difference`."""

ALIASES = {"heterogenous": "heterogenous_pos", "heterogenous_full": "logical", "attention": "raw"}
"""Other names of the same methods."""
SIGNED = frozenset({"logical"})
"""Methods whose scores speak for and against."""
SAME = 1e-3
"""How far weights of two passes may lie apart; rounding stays well below it."""


def known_methods(names: Sequence[str], *, inputs: bool = False) -> list[str]:
    """Names without aliases; an unknown one is refused.

    Args:
        inputs: Also those of `by_inputs`, which need a subject.
    """
    known = [*METHODS, *INPUT_METHODS] if inputs else list(METHODS)
    found = [ALIASES.get(name, name) for name in names]
    for name in found:
        if name not in known:
            raise UserError(f"There is no method {name!r}.{did_you_mean(name, known)} Methods: {', '.join(known)}.")
    return list(dict.fromkeys(found))


def explain_subject(subject: Subject, methods: Sequence[str]) -> dict[str, Scores]:
    """Scores of every input of a subject, by method: those that follow attention and those that ask inputs."""
    names = known_methods(methods, inputs=True)
    following = [name for name in names if name in METHODS]
    found = explain(subject.net, subject.plan, subject.forward, subject.target, following) if following else {}
    found |= {name: INPUT_METHODS[name](subject) for name in names if name in INPUT_METHODS}
    return {name: found[name] for name in names}


def explain(
    net: nn.Module,
    plan: Plan,
    forward: Callable[[nn.Module], Output],
    target: Callable[[Output], Float[Tensor, " b"]],
    methods: Sequence[str],
) -> dict[str, Scores]:
    """Scores of every input position for the plan's row, by method.

    Args:
        forward: Takes the bare network and gives its output. Samples must not share inputs: repeat a picture for each of
            its captions. Inputs made in inference mode must be cloned inside.
        target: The output to one number per sample; see `targets`.
    """
    known_methods(methods)
    own = {name: METHODS[ALIASES.get(name, name)] for name in methods}
    heard = _listen(net, plan, forward, target, list(own.values()))
    return {name: method.run(heard) for name, method in own.items()}


def _listen(
    net: nn.Module,
    plan: Plan,
    forward: Callable[[nn.Module], Output],
    target: Callable[[Output], Float[Tensor, " b"]],
    methods: Sequence[Method],
) -> Heard:
    captured = capture(net, forward)
    check_batch(captured.records)
    number = captured.target(target)
    gradients = captured.gradients_of(number) if any(method.gradients for method in methods) else None
    relevance = None
    if any(method.relevance for method in methods):
        again = capture(net, forward, rules=lrp(bare_net(net)))
        _check_same(captured.records, again.records)
        relevance = again.gradients_of(again.target(target))
    return read(plan, captured.records, gradients, relevance)


def _check_same(plain: Sequence[AttentionRecord], ruled: Sequence[AttentionRecord]) -> None:
    """The pass under rules computed what the first one did: neither chance nor a rule changed it."""
    pairs = [(one.weights, other.weights) for one, other in zip(plain, ruled, strict=False)]
    if len(plain) != len(ruled) or not all(
        a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=SAME, equal_nan=True) for a, b in pairs
    ):
        raise UserError(
            "Attention differs between a pass with LRP and one without, so that LRP would explain another output. Let "
            "`forward` draw no random numbers; if it draws none, leave out t_attr and partial_lrp."
        )
