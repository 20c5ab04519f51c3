"""What is the plan of each of our networks? Built from the names and streams of its attention sites.

- Captioner: regions read regions in the encoder; in the decoder words read the words before them, then regions. The row of
  word i predicts word i + 1.
- M4C: one joint sequence; the question's own layers come first and work on its part. The target is a step of the answer.
- MAC: the memory is a stream of one row. Each step it keeps itself and reads words, through control, and cells, in parallel:
  neither changes while the steps run.
- The verb-number network, and any stack of layers over one stream: each reads itself; the answer is read from row 0.

Refused, because no product of maps would mean anything: SCAN compares two streams once and pools all rows into a score;
AttnGAN's stages paint cells of growing number, none of which is an answer; MAC with self-attention reads memories of
earlier steps, which the memory no longer holds. Blank-out, input gradients and perturbation explain these.
"""

import re
from collections.abc import Sequence

from torch import nn

from lit_attn.attribution.capture import RAW, bare_net
from lit_attn.attribution.plan import Event, Plan, Target
from lit_attn.errors import UserError
from lit_attn.nn.tape import Site, sites_of

ELSE = "Explain it by blank-out, input gradients or perturbation instead."


def plan_of(net: nn.Module, row: int | tuple[int, ...] = 0) -> Plan:
    """The plan of a network of ours, asked about a row: a word's place, a step of an answer. MAC has the row 0 alone."""
    sites = [site for site in sites_of(bare_net(net)) if not site.name.startswith(RAW)]
    names = {site.name for site in sites}
    kind = type(bare_net(net)).__name__
    if {"control", "read"} <= names:
        return mac_plan(sites)
    if any(name.startswith("joint.") for name in names):
        return m4c_plan(sites, row)
    if any(name.startswith("decoder.") for name in names):
        return captioner_plan(sites, row)
    if not sites:
        raise UserError(f"{kind} has no attention sites, so there is nothing to attribute by.")
    if all(site.query_stream != site.key_stream for site in sites):
        pairs = ", ".join(f"{site.name!r} ({site.query_stream} to {site.key_stream})" for site in sites)
        raise UserError(
            f"{kind} has no layers to follow: at {pairs} one stream is compared with another, and no row is the "
            f"output's own. {ELSE}"
        )
    return stack_plan(sites, row)


def captioner_plan(sites: Sequence[Site], row: int | tuple[int, ...]) -> Plan:
    return Plan(_in_order(sites, ("encoder", "decoder")), Target("words", row))


def m4c_plan(sites: Sequence[Site], step: int | tuple[int, ...]) -> Plan:
    text = _in_order([site for site in sites if site.name.startswith("text.")], ("text",))
    question = tuple((Event("joint", "joint", event.site, part="question"),) for group in text for event in group)
    joint = _in_order([site for site in sites if not site.name.startswith("text.")], ("joint",))
    return Plan(question + joint, Target("joint", step, part="decoded"))


def mac_plan(sites: Sequence[Site]) -> Plan:
    calls = {site.name: site.calls for site in sites}
    if set(calls) != {"control", "read"}:
        more = ", ".join(sorted(set(calls) - {"control", "read"}))
        raise UserError(
            f"MAC with attention at {more!r} reads memories of earlier steps, which one row of memory does not hold. {ELSE}"
        )
    groups = tuple(
        (Event("memory", "words", "control", step), Event("memory", "cells", "read", step))
        for step in range(calls["control"])
    )
    return Plan(groups, Target("memory"))


def stack_plan(sites: Sequence[Site], row: int | tuple[int, ...]) -> Plan:
    """Layers over one stream, in the order of the network's modules."""
    streams = {stream for site in sites for stream in (site.query_stream, site.key_stream)}
    if len(streams) > 1:
        known = ", ".join(f"{site.name} ({site.query_stream} to {site.key_stream})" for site in sites)
        raise UserError(f"No plan is known for attention at {known}. Write one: Plan(groups, Target(stream, row)).")
    stream = streams.pop()
    groups = tuple((Event(stream, stream, site.name, call),) for site in sites for call in range(site.calls))
    return Plan(groups, Target(stream, row))


def _in_order(sites: Sequence[Site], parts: Sequence[str]) -> tuple[tuple[Event, ...], ...]:
    """One group per site, by part of the network, layer, and self- before cross-attention."""

    def place(site: Site) -> tuple[int, int, bool]:
        match = re.fullmatch(r"(\w+)\.(\d+)\.(self|cross)", site.name)
        if match is None or match[1] not in parts:
            raise UserError(f"The plan of this network knows no site {site.name!r}; it would be left out.")
        return parts.index(match[1]), int(match[2]), match[3] == "cross"

    return tuple((Event(site.query_stream, site.key_stream, site.name),) for site in sorted(sites, key=place))
