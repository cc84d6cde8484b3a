"""Plans for more than the mean of a known model, against closed forms and enumeration."""

import itertools
import signal
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import ilbo
from ilbo.planning.ilbo import ILBOTrainer

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ilbo.ILBO(layers=(8,), depth=2, window=1, guard=16, test_episodes=8, evaluate_every=5)


class Cart(ilbo.Model):
    strength: float = 0.9
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + self.strength * action + 0.3 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - 2) ** 2)

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)


def cart(**more) -> ilbo.Problem:
    laws = {"strength": ilbo.Uniform(0.5, 1.5)}
    return ilbo.Problem(
        Cart(),
        name="cart",
        initial_state=[0.0],
        horizon=5,
        region=(-3.0, 3.0),
        uncertain=laws,
        **more,
    )


def settings(objective: str, **more) -> ilbo.ILBO:
    return ilbo.ILBO(**{**SMALL.to_dict(), "objective": objective, **more})


def test_the_mean_of_a_known_model_is_trained_as_ever():
    trainer = ILBOTrainer.of(ilbo.make("navigation-3"), ilbo.ILBO(), 10)
    assert trainer.beyond is None
    assert trainer.networks.seen is None
    assert trainer.networks.problem is trainer.problem
    state, held = jax.eval_shape(trainer.init, jax.random.key(0))
    assert state.aim is None
    assert jax.tree.structure(held) == jax.tree.structure(state.policy)


@pytest.mark.slow
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("objective", ["mean", "cvar:0.2", "worst"])
def test_policies_are_saved_and_runs_go_on_to_the_same_bits(objective, seen, tmp_path):
    problem, config = cart(uncertain_is_seen=seen), settings(objective)
    whole = ilbo.plan(problem, config, episodes=15)
    assert whole.policy.sees_return == (objective == "cvar:0.2")
    assert whole.policy.sees_drawn == seen
    earned = ilbo.evaluate(problem, whole.policy, 0, episodes=32)
    assert np.isfinite(earned.mean)
    path = tmp_path / "policy.ilbo"
    ilbo.save_policy(whole.policy, path, problem)
    again = ilbo.evaluate(problem, ilbo.load_policy(path, problem), 0, episodes=32)
    assert again.mean == earned.mean

    def interrupt(record):
        if record.episode == 5:
            signal.raise_signal(signal.SIGINT)

    stopped = ilbo.plan(problem, config, episodes=15, out=tmp_path / "run", progress=interrupt)
    assert not stopped.is_finished
    resumed = ilbo.resume(tmp_path / "run", problem)
    pairs = zip(*(jax.tree.leaves(p.policy.network) for p in (whole, resumed)), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


class Gain(eqx.Module):
    """u = k s: one number, for a state and an action of one component."""

    k: jax.Array

    def __call__(self, x):
        return self.k * x


def gain(key, inputs, outputs):
    return Gain(jnp.zeros(1))


class LEQG(ilbo.Model):
    """s' = s + a + ξ at the cost (s² + a²) / 2."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + action + noise

    def reward(self, state, action, next_state):
        return -0.5 * jnp.sum(state**2 + action**2)

    def bounds(self, state):
        return jnp.full(1, -jnp.inf), jnp.full(1, jnp.inf)


def risk_of(k: float, rate: float, horizon: int) -> float:
    """−ln E e^(−λR) / λ of a = −k s from 0: e^(λ/2 · (c s² + P s'²)) integrates to
    P ← c + (1 − k)² P / (1 − λP) and a factor (1 − λP)^(−1/2)."""
    P, total = 0.0, 0.0
    for _ in range(horizon):
        total += np.log(1 - rate * P) / (2 * rate)
        P = 1 + k**2 + (1 - k) ** 2 * P / (1 - rate * P)
    return total


@pytest.mark.slow
def test_entropic_risk_finds_the_gain_of_the_closed_form():
    rate, horizon = 0.1, 30
    best = optimize.minimize_scalar(
        lambda k: -risk_of(k, rate, horizon), bounds=(0.3, 0.9), method="bounded"
    )
    plain = optimize.minimize_scalar(
        lambda k: -risk_of(k, 1e-6, horizon), bounds=(0.3, 0.9), method="bounded"
    )
    assert best.x > plain.x + 0.045  # what is sought is not what the mean asks for
    problem = ilbo.Problem(
        LEQG(), name="leqg", initial_state=[0.0], horizon=horizon, region=(-1.0, 1.0)
    )
    config = ilbo.ILBO(policy=gain, layers=(16,), objective=f"entropic:{rate}", policy_batch=128)
    plan = ilbo.plan(problem, config, episodes=300)
    assert -float(plan.policy(jnp.ones(1))[0]) == pytest.approx(best.x, abs=0.015)
    result = ilbo.evaluate(problem, plan.policy, 1, episodes=20_000)
    assert result.value(f"entropic:{rate}") == pytest.approx(-best.fun, rel=0.02)


class Bets(ilbo.Model):
    """Two bets on coins; the stake may depend on how the first went. State: step."""

    law = ilbo.Discrete([-1.0, 1.0], [0.5, 0.5])

    def transition(self, state, action, noise):
        return jnp.array([state[0] + 1, noise[0]])

    def reward(self, state, action, next_state):
        win = jnp.where(next_state[1] > 0, 3.0, -1.0)
        return jnp.sum(action) * win - 0.3 * jnp.sum(action**2)

    def bounds(self, state):
        return jnp.zeros(1), jnp.ones(1)


def worst_half(first, after_loss, after_win):
    """CVaR 0.75 by enumeration of the four outcomes."""

    def pay(stake, win):
        return stake * (3.0 if win else -1.0) - 0.3 * stake**2

    totals = np.stack(
        [
            pay(first, win) + pay(after_win if win else after_loss, again)
            for win, again in itertools.product((False, True), repeat=2)
        ]
    )
    return np.sort(totals, axis=0)[:3].mean(axis=0)


@pytest.mark.slow
def test_a_penalty_on_spread_does_not_end_where_nothing_is_earned():
    """A battery that stands still has no spread: if the objective came before there is something to
    lose, training would end there, at 1,000 instead of 1,500."""
    battery = ilbo.make(f"{EXAMPLES / 'battery.py'}:problem")
    values = []
    for objective in ("mean", "mean-std:1"):
        plan = ilbo.plan(battery, ilbo.ILBO(objective=objective), episodes=300)
        values.append(ilbo.evaluate(battery, plan.policy, 1, episodes=2048).value("mean-std:1"))
    assert values[1] > values[0]


@pytest.mark.slow
def test_cvar_in_two_steps_is_that_of_an_enumeration():
    grid = np.linspace(0, 1, 51)
    values = worst_half(*np.meshgrid(grid, grid, grid, indexing="ij"))
    best = values.max()
    blind = max(values[:, i, i].max() for i in range(51))
    assert best > 2 * blind  # the second stake must depend on what was earned
    problem = ilbo.Problem(
        Bets(), name="bets", initial_state=[0.0, 0.0], horizon=2, region=([0, -1], [1, 1])
    )
    config = ilbo.ILBO(layers=(32, 32), objective="cvar:0.75", policy_batch=128)
    plan = ilbo.plan(problem, config, episodes=4000)
    win, lose = (jnp.max(first) for first in _first_pays(plan.policy))
    stakes = [
        plan.policy(jnp.array(x))[0]
        for x in ([0.0, 0.0, 0.0], [1.0, -1.0, float(lose)], [1.0, 1.0, float(win)])
    ]
    assert worst_half(*map(float, stakes)) > best - 0.25 * (
        best - blind
    )  # a tenth of the mean stays


def _first_pays(policy):
    stake = policy(jnp.zeros(3))
    return stake * 3.0 - 0.3 * stake**2, -stake - 0.3 * stake**2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objective": "worst"}, "has none"),
        ({"objective": "cvar:0.1", "critic": "discounted"}, "critic=time-left"),
        ({"objective": "cvar:0.1", "estimator": "critic"}, "estimator=pathwise"),
    ],
)
def test_what_cannot_be_planned_for_is_said_so(change, words):
    problem = ilbo.make("navigation-3")
    with pytest.raises(ilbo.UserError, match=words):
        ILBOTrainer.of(problem, ilbo.ILBO(**change), 10)
