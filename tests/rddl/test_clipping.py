"""Action bounds, read from clipping in the equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_rddl import write

from ilbo import rddl
from ilbo.rddl.source import locate

INF = np.inf
STATE = jnp.array([1.0, 2.0, 3.0])
"""water of a, b and c; their SIZEs are 4, 6 and 4."""

FOUND = {
    "max of min": ("max[0, min[water(?t), release(?t)]]", 0, [1, 2, 3]),
    "min of max": ("min[water(?t) / 2, max[release(?t), -1]]", -1, [0.5, 1, 1.5]),
    "one end": ("2 * min[release(?t), SIZE(?t)]", -INF, [4, 6, 4]),
    "ends that cross, max outside": ("max[2, min[water(?t), release(?t)]]", 2, [2, 2, 3]),
    "ends that cross, min outside": ("min[2, max[release(?t), water(?t)]]", [1, 2, 2], 2),
    "another quantifier": ("sum_{?u : tank} [min[SIZE(?u), release(?u)]]", -INF, [4, 6, 4]),
}
NOT_FOUND = {
    "no clipping": "release(?t)",
    "a second way": "min[water(?t), release(?t)] + 0.1 * release(?t)",
    "another second end": "min[water(?t), release(?t)] + min[SIZE(?t), release(?t)]",
    "an end that is drawn": "min[Normal(0, 1), release(?t)]",
    "an end of other objects": "sum_{?u : tank} [min[water(?u), release(?t)]]",
    "an end with the action": "min[release(?t), 2 * release(?t)]",
}


def model_of(tmp_path, released, **parts):
    return rddl.exact_model(
        locate(write(tmp_path, water=f"water(?t) - ({released})", **parts), None)
    )


@pytest.mark.parametrize("case", FOUND)
def test_bounds_are_where_the_action_has_an_effect(tmp_path, case):
    released, low, high = FOUND[case]
    model = model_of(tmp_path, released)
    got = model.bounds(STATE)
    np.testing.assert_allclose(got[0], np.broadcast_to(low, 3), rtol=1e-6)
    np.testing.assert_allclose(got[1], np.broadcast_to(high, 3), rtol=1e-6)

    def step(action):
        return model.transition(STATE, action, jnp.zeros(0))

    within = jnp.clip(jnp.array([0.3, 1.1, 2.2]), *(jnp.clip(end, -9, 9) for end in got))
    for end, outwards in zip(got, (-1.0, 1.0), strict=True):
        beyond = jnp.where(jnp.isfinite(end), end + outwards, within)
        at = jnp.where(jnp.isfinite(end), end, within)
        np.testing.assert_allclose(step(beyond), step(at), rtol=1e-6)
    inside = (got[0] < within) & (within < got[1])
    assert jnp.all(jnp.diagonal(jax.jacobian(step)(within))[inside] != 0)


@pytest.mark.parametrize("case", NOT_FOUND)
def test_what_is_no_clipping_bounds_nothing(tmp_path, case):
    assert np.isinf(model_of(tmp_path, NOT_FOUND[case]).bounds(STATE)).all()


def test_an_action_that_also_costs_is_not_bounded(tmp_path):
    model = model_of(
        tmp_path, "min[water(?t), release(?t)]", reward="sum_{?t : tank} [release(?t)]"
    )
    assert np.isinf(model.bounds(STATE)).all()


def test_preconditions_hold_where_both_cannot(tmp_path):
    model = model_of(
        tmp_path,
        "max[0, min[water(?t), release(?t)]]",
        preconditions="forall_{?t : tank} [release(?t) >= 2 ^ release(?t) <= 2.5];",
    )
    low, high = model.bounds(STATE)
    np.testing.assert_allclose(low, 2)
    np.testing.assert_allclose(high, [2, 2, 2.5])
