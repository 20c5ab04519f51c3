"""Does a plan fit its records, and is what does not fit named?"""

from dataclasses import replace

import pytest
import torch

from lit_attn.attribution.heard import read
from lit_attn.attribution.plan import Event, Plan, Target
from lit_attn.attribution.raw import raw_attention
from lit_attn.attribution.rollout import rollout_row
from lit_attn.errors import UserError
from lit_attn.nn.tape import Part
from tests.reference.attribution import one_stream, random_weights, record

PLAN = Plan(((Event("a", "a", "self"),), (Event("a", "b", "cross"),)), Target("a", 1))


def records(b=2, a=3, k=5):
    return [
        record("self", random_weights(b, 2, a, a), streams=("a", "a")),
        record("cross", random_weights(b, 2, a, k), streams=("a", "b")),
    ]


def test_a_site_that_was_not_heard_is_named():
    with pytest.raises(UserError, match="names 'cross', which the records do not hold. Heard: 'self'"):
        read(PLAN, records()[:1])


def test_a_plan_that_misses_a_site_is_refused():
    more = record("self", random_weights(2, 2, 3, 3), streams=("a", "a"), call=1)
    with pytest.raises(UserError, match="plan misses 'self' call 1"):
        read(PLAN, [*records(), more])


def test_rows_that_are_no_distribution_are_named():
    heard = records()
    heard[1].weights[1, 0, 2] *= 0.7
    with pytest.raises(UserError, match="site 'cross' is no distribution: row 2 of sample 1, head 0, sums to 0.7"):
        read(PLAN, heard)
    heard[1].weights[0, 1, 0] = torch.nan
    with pytest.raises(UserError, match="row 0 of sample 0, head 1, sums to nan"):
        read(PLAN, heard)
    read(PLAN, heard, strict_rows=False)


def test_samples_that_share_inputs_are_refused():
    shared = [records(b=1)[0], records(b=2)[1]]
    with pytest.raises(UserError, match="'self' has 1 samples and 'cross' 2"):
        read(PLAN, shared)


def test_streams_of_two_sizes_are_refused():
    other = [records(a=4)[0], records(a=3)[1]]
    with pytest.raises(UserError, match="'a' has 4 rows elsewhere and 3 at site 'cross'"):
        read(PLAN, other)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (3, "row 3 does not exist: sample 0 has 3 rows of 'a'"),
        (-1, "row -1 does not"),
        ((0, 1, 2), "3 rows, but there are 2"),
    ],
)
def test_target_rows_outside_are_named(row, message):
    with pytest.raises(UserError, match=message):
        raw_attention(read(PLAN.at(row), records()))


def test_target_rows_of_padding_are_refused():
    mask = torch.tensor([[True, True, False]])
    weights = random_weights(2, 1, 1, 3, 3, mask=mask)
    with pytest.raises(UserError, match="row 2 does not exist: sample 0 has 2 rows"):
        rollout_row(one_stream(weights, mask=mask, row=2))


def test_plans_that_make_no_sense_are_refused():
    with pytest.raises(UserError, match="at least one group"):
        Plan((), Target("a"))
    with pytest.raises(UserError, match="named twice: 's' call 0"):
        Plan(((Event("a", "a", "s"), Event("a", "b", "s")),), Target("a"))
    with pytest.raises(UserError, match="stream 'c' is in no event. Streams: a, b"):
        replace(PLAN, target=Target("c"))


def test_layers_of_a_part_change_that_part_alone():
    """Two layers on the second part of a joint stream, then one on all of it."""
    parts = (Part("first", 0, 2), Part("second", 2, 5))
    plan = Plan(((Event("j", "j", "own", part="second"),), (Event("j", "j", "all"),)), Target("j", 1, part="second"))
    own, whole = random_weights(1, 2, 3, 3), random_weights(1, 2, 5, 5)
    heard = read(plan, [record("own", own), record("all", whole, parts=parts)])
    assert heard.rows.tolist() == [3]
    lower = torch.eye(5, dtype=torch.float64)
    lower[2:, 2:] = (own.mean(1)[0] + torch.eye(3)) / 2
    expected = ((whole.mean(1)[0] + torch.eye(5)) / 2) @ lower
    torch.testing.assert_close(rollout_row(heard)[0], expected[3])
    with pytest.raises(UserError, match="planned on part 'third' of 'j'"):
        read(
            replace(plan, groups=((Event("j", "j", "own", part="third"),), plan.groups[1])),
            [record("own", own), record("all", whole, parts=parts)],
        )
