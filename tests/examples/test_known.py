"""The problems of examples/known: what is said to be their optimum is, by other means."""

import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import ilbo
from ilbo.baselines import earned
from known import battery, by_grid, hydro, linear, money, pendulum, stocks


def assert_earns(known, episodes=2048):
    """The best policy earns the optimum, within what chance allows."""
    truth = known.truth()
    returns = earned(known.judge, truth.policy, 3, episodes)
    error = returns.std(ddof=1) / episodes**0.5
    assert abs(returns.mean() - truth.value) < 4 * error + 1e-4 * abs(truth.value) + truth.error


@pytest.mark.parametrize("make", [lambda: linear.lqg(2), lambda: linear.lqg(50), linear.change])
def test_gains_of_riccati_earn_its_value(make):
    assert_earns(make(), 512)


@pytest.mark.slow
def test_riccati_agrees_with_dynamic_programming():
    known = linear.lqg(2)
    model = known.problem.model

    class Bounded(type(model)):
        def bounds(self, state):
            return jnp.full(1, -4.0), jnp.full(1, 4.0)

    bounded = Bounded(model.law, model.F, model.M, model.Q, model.noisy)
    problem = ilbo.Problem(
        bounded, name="lqg", initial_state=[1.0, 1.0], horizon=20, region=(-2.0, 2.0)
    )
    found = by_grid(problem, (11, 21), (-3.0, 3.0), 3)
    np.testing.assert_allclose(found.value, known.truth().value, rtol=0.002)


@pytest.mark.parametrize("make", [money.cake, money.merton, stocks.stock])
def test_closed_forms_are_what_their_policies_earn(make):
    assert_earns(make(), 1024)


def test_figures_of_textbooks():
    assert stocks.best_level() == pytest.approx(662.5)
    assert stocks.stock().truth().value == pytest.approx(-297_868.75)
    values = [hydro.optimum(rains, trades) for trades in (False, True) for rains in (False, True)]
    assert values == pytest.approx([835.0, 838.333, 851.8, 855.0], abs=0.01)


class Changed(eqx.Module):
    policy: Any
    change: float

    @property
    def timed(self):
        return getattr(self.policy, "timed", False)

    def __call__(self, state, *time):
        return self.policy(state, *time).at[0].add(self.change * state[0])


@pytest.mark.parametrize(("known", "change"), [(money.cake, 0.02), (money.merton, 0.01)])
def test_other_shares_earn_less(known, change):
    known = known()
    truth = known.truth()
    best = earned(known.judge, truth.policy, 0, 1024)
    for sign in (-1, 1):
        other = Changed(truth.policy, sign * change)
        assert earned(known.judge, other, 0, 1024).mean() < best.mean()


def test_program_of_the_battery_can_be_carried_out():
    """Buying and selling as the program says earns its value in the model."""
    known = battery.battery()
    sold = jnp.asarray(battery.best_trades(), jnp.float32)

    class Trades:
        timed = True

        def __call__(self, state, time):
            return sold[time][None]

    returns = earned(known.problem, Trades(), 0, 1)
    np.testing.assert_allclose(returns, known.truth().value, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("make", [stocks.lead_time, pendulum.pendulum])
def test_grids_agree_with_what_their_policies_earn(make):
    assert_earns(make())


def test_valley_keeps_its_water():
    """What is not turbined, spilled or refused stays in the dams."""
    model = hydro.hydro(rains=True, trades=True).problem.model
    key = jax.random.key(0)
    state = jnp.array([150.0, 120.0, 20.0, 0.0, 1.0, 1.0])
    after = model.transition(state, jnp.array([60.0, 50.0]), model.noise(key))
    np.testing.assert_allclose(after[:2], [150 - 60 + 20, 120 - 50 + 60])
    assert float(model.reward(state, jnp.array([60.0, 50.0]), after)) == 1.0 * (65 + 55)
