"""Do the pictures for loggers show what was measured, and where?"""

import numpy as np

from lit_attn.probes.probe import HeadValue, StepValue
from lit_attn.run.heat_panels import draw_panels, head_panels, step_panels

NAN = float("nan")


def test_heads_have_a_panel_per_metric_with_all_sites():
    values = [
        HeadValue("d.2.self", 0, "entropy", 0.25, 3),
        HeadValue("d.2.self", 1, "entropy", NAN, 0),
        HeadValue("b", 1, "mass", 0.5, 2),
    ]
    entropy, mass = head_panels(values)
    assert (entropy.title, entropy.rows, entropy.columns) == ("entropy", ("d · self, layer 3", "b"), ("1", "2"))
    np.testing.assert_array_equal(entropy.values, [[0.25, NAN], [NAN, NAN]])
    np.testing.assert_array_equal(mass.values, [[NAN, NAN], [NAN, 0.5]])


def test_steps_are_averaged_over_heads_and_stand_by_kind():
    values = [
        StepValue("read", 0, "cause_mass", 0, "all", 0.25, 3),
        StepValue("read", 1, "cause_mass", 0, "all", 0.75, 3),
        StepValue("read", 0, "cause_mass", 1, "count", 0.125, 1),
        StepValue("control", 0, "step_entropy", 1, "all", 0.5, 3),
    ]
    mass, entropy = step_panels(values)
    assert (mass.title, mass.rows, mass.columns) == ("read cause mass", ("step 1", "step 2"), ("all", "count"))
    np.testing.assert_array_equal(mass.values, [[0.5, NAN], [NAN, 0.125]])
    np.testing.assert_array_equal(entropy.values, [[NAN, NAN], [0.5, NAN]])


def test_many_panels_make_a_picture_of_several_rows():
    one = [HeadValue("a", 0, f"metric {i}", i / 8, 1) for i in range(1, 8)]
    few, many = draw_panels(head_panels(one[:1])), draw_panels(head_panels(one))
    assert few.dtype == np.uint8
    assert few.shape[2] == 3
    assert many.shape[0] > few.shape[0]
    assert few.std() > 0
