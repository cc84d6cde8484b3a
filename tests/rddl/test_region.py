"""The start region of problems that name none."""

import numpy as np
from tiny_rddl import write

from ilbo import rddl
from ilbo.rddl.region import estimate
from ilbo.rddl.source import locate

BOX = "forall_{?t : tank} [release(?t) >= -1 ^ release(?t) <= 1];"


def region_of(tmp_path, **parts):
    model = rddl.exact_model(locate(write(tmp_path, preconditions=BOX, **parts), None))
    low, high = estimate(model, 40)
    initial = model.dynamics.initial()
    assert np.all(low <= initial)
    assert np.all(initial <= high)
    return low, high


def test_holds_what_policies_reach(tmp_path):
    low, high = region_of(tmp_path, water="0.5 * water(?t) + release(?t)")
    # Held at ±1 the level settles at ±2; from 1 or 3 it comes down to that.
    assert np.all((low > -2.1) & (low < -1.2))
    assert np.all((high > 1.2) & (high < 3.1))


def test_is_cut_to_the_invariants(tmp_path):
    low, high = region_of(
        tmp_path,
        water="water(?t) + release(?t)",
        blocks="state-invariants { forall_{?t : tank} [water(?t) >= 0 ^ water(?t) <= SIZE(?t)]; };",
    )
    assert np.all(low >= 0)
    assert np.all(high <= [4, 6, 4])


def test_of_an_angle_is_one_turn(tmp_path):
    low, high = region_of(
        tmp_path,
        more="height(tank) : { interm-fluent, real };",
        cpfs="height(?t) = sin[water(?t)];",
        water="water(?t) + 9 * release(?t) + 0 * height(?t)",
    )
    np.testing.assert_allclose(high - low, 2 * np.pi, rtol=1e-5)


def test_of_a_component_that_never_moves_has_a_width(tmp_path):
    low, high = region_of(tmp_path, water="water(?t)")
    np.testing.assert_allclose(high - low, [1, 1, 3])


def test_of_a_system_that_runs_away_is_that_of_small_actions(tmp_path):
    low, high = region_of(tmp_path, water="water(?t) + pow[4 * release(?t), 9]")
    # Full actions move it by up to 4⁹ a step, a tenth of them by 0.4⁹.
    assert np.all(high - low < 1.5)


def test_actions_without_bounds_are_of_the_size_that_earns_most(tmp_path):
    parts = dict(
        water="0.5 * water(?t) + release(?t)",
        reward="-sum_{?t : tank} [pow[water(?t) - 200, 2]]",
    )
    model = rddl.exact_model(locate(write(tmp_path, **parts), None))
    _, high = estimate(model, 40)
    # The level settles at twice the release, which is best at 100.
    assert np.all((high > 150) & (high < 600))
    bounded = rddl.exact_model(locate(write(tmp_path, preconditions=BOX, **parts), None))
    assert np.all(estimate(bounded, 40)[1] < 5)
