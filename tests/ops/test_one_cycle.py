"""Does the rate rise, reach its top once and fall to zero?"""

from itertools import pairwise

import pytest

from lit_attn.ops.schedule import one_cycle


def test_it_rises_to_the_top_and_falls_to_zero():
    shares = [one_cycle(done, 100, 0.1) for done in range(101)]
    assert shares[0] == pytest.approx(1 / 11)
    assert shares[10] == 1.0
    assert all(a < b for a, b in pairwise(shares[:11]))
    assert all(a > b for a, b in pairwise(shares[10:]))
    assert shares[55] == pytest.approx(0.5)
    assert shares[100] == pytest.approx(0.0, abs=1e-12)


def test_a_run_of_one_step_has_a_rate():
    assert one_cycle(0, 1, 0.0) > 0
