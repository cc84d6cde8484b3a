"""The models that benchmarks/twins.py writes a second time are the same functions."""

import importlib.util
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ilbo.mdp.bounds import within

pytest.importorskip("casadi")
HOME = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("twins", HOME / "benchmarks" / "twins.py")
twins = importlib.util.module_from_spec(_spec)
sys.modules["twins"] = twins
_spec.loader.exec_module(twins)


@pytest.mark.parametrize("name", twins.TWINS)
def test_twin_moves_and_earns_as_its_model_does(name):
    twin = twins.TWINS[name]()
    problem, model = twin.problem, twin.problem.exact
    draw = np.random.default_rng(0)
    low, high = (np.asarray(end, float) for end in problem.region)
    for i in range(20):
        time = i % problem.horizon
        state = low + draw.uniform(size=problem.state_size) * (high - low)
        if name in ("battery", "hydro-inflows-prices"):
            state[-1] = time
        if name.startswith("hydro"):
            state[4] = i % 2
        noise = np.asarray(model.noise(jax.random.key(i)), float)
        action = np.asarray(within(*model.bounds(*_32(state)), draw.uniform()), float)
        assert np.asarray(twin.limits(state, action)).min() > -1e-3
        moved = np.asarray(model.transition(*_32(state, action, noise)), float)
        if name.startswith("hydro"):
            noise[2] = moved[4]  # the twin is told the place of the market
        np.testing.assert_allclose(
            np.asarray(twin.transition(state, action, noise, 0.0)).ravel(), moved, atol=2e-3
        )
        exact = twin.jumps or twin.reward
        np.testing.assert_allclose(
            float(exact(state, action, moved, time, 0.0)),
            float(model.reward(*_32(state, action, moved))),
            rtol=1e-4, atol=2e-2,
        )  # fmt: skip


def _32(*arrays):
    return [jnp.asarray(x, jnp.float32) for x in arrays]
