"""Limits in training, against closed forms; and by what rules λ moves and policies are kept."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import ilbo
from ilbo.mdp.limits import Tally
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.limited import Kept, Prices, is_better, remark

SMALL = ilbo.ILBO(layers=(8,), depth=2, window=1, guard=16, test_episodes=8, evaluate_every=5)


class Walk(ilbo.Model):
    """s' = s + a + ξ / 2 for the reward a − a² / 10."""

    law = ilbo.Gaussian(1)
    effect: float = 1.0

    def transition(self, state, action, noise):
        return state + self.effect * action + 0.5 * noise

    def reward(self, state, action, next_state):
        return action[0] - 0.1 * action[0] ** 2

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)

    def costs(self, state, action, next_state):
        return {"level": next_state[0], "effort": action[0] ** 2}


def walk(limits, horizon=10, **more):
    return ilbo.Problem(
        Walk(),
        name="walk",
        initial_state=[0.0],
        horizon=horizon,
        region=(-5.0, 10.0),
        limits=limits,
        **more,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "discount"),
    [("E(effort) <= 2", 1.0), ("each E(effort) <= 0.2", 1.0), ("E(effort) <= 2", 0.95)],
)
def test_an_expected_cost_is_kept_at_the_return_of_the_closed_form(limit, discount):
    """Without a discount both limits say a = √0.2 at each step; with one, γ^t (1 − a / 5) = 2 λ a,
    where costs are not discounted."""
    weights = discount ** np.arange(10)

    def actions(price):
        return np.minimum(1.0, weights / (2 * price + 0.2 * weights))

    price = optimize.brentq(lambda x: (actions(x) ** 2).sum() - 2, 0.01, 10)
    best = (weights * (actions(price) - 0.1 * actions(price) ** 2)).sum()
    config = ilbo.ILBO(layers=(32, 32), policy="time-left")
    plan = ilbo.plan(walk([limit], discount=discount), config, episodes=500)
    found = ilbo.evaluate(plan.problem, plan.policy, 1, episodes=2000)
    assert plan.unkept == [None]
    assert found.limits[0].kept
    assert found.discounted_mean == pytest.approx(best, rel=0.05)
    assert found.discounted_mean <= best + 1e-3


@pytest.mark.slow
def test_a_chance_is_kept_and_used():
    """One step: a + ξ / 2 ≤ 0.2 but for 10 % has a = 0.2 − 1.2816 / 2."""
    problem = walk(["P(level > 0.2) <= 0.1"], horizon=1)
    plan = ilbo.plan(problem, ilbo.ILBO(layers=(32,)), episodes=4000)
    found = ilbo.evaluate(problem, plan.policy, 1, episodes=20_000)
    assert found.limits[0].kept
    assert found.limits[0].value > 0.05  # the margin is of some 1,000 episodes
    assert found.mean == pytest.approx(0.2 - 1.2816 / 2, abs=0.15)


@pytest.mark.slow
def test_limits_that_nothing_keeps_are_said_so_with_the_least():
    with pytest.warns(
        ilbo.PlanningWarning, match=r"surely keeps P\(level > -9\) <= 0.1: the least"
    ):
        plan = ilbo.plan(walk(["P(level > -9) <= 0.1"], horizon=2), SMALL, episodes=10)
    assert plan.unkept[0] is not None


@pytest.mark.slow
@pytest.mark.parametrize("uncertain", [None, {"effect": ilbo.Uniform(0.5, 1.5)}])
def test_runs_with_limits_go_on_to_the_same_bits(uncertain, tmp_path):
    problem = walk(["P(level > 2) <= 0.3", "each E(effort) <= 0.5"], uncertain=uncertain)
    whole = ilbo.plan(problem, SMALL, episodes=15)
    assert not whole.policy.sees_return

    def interrupt(record):
        if record.episode == 5:
            signal.raise_signal(signal.SIGINT)

    out = tmp_path / "run"
    stopped = ilbo.plan(problem, SMALL, episodes=15, out=out, progress=interrupt)
    assert not stopped.is_finished
    resumed = ilbo.resume(out, walk([], uncertain=uncertain))  # the folder knows the limits
    assert resumed.problem.limits == problem.limits
    pairs = zip(*(jax.tree.leaves(p.policy.network) for p in (whole, resumed)), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.slow
def test_a_run_can_begin_with_the_policy_of_a_free_one():
    free = ilbo.plan(walk([]), SMALL, episodes=5).policy
    config = ilbo.ILBO(**{**SMALL.to_dict(), "policy_rate": 1e-9})
    plan = ilbo.plan(walk(["E(effort) <= 100"]), config, episodes=5, warm_start=free)
    state = jnp.ones(1)
    assert float(plan.policy(state)[0]) == pytest.approx(float(free(state)[0]), abs=1e-3)


def tally(mean, count=1000):
    figures = count, [mean], [mean * (1 - mean)]
    return Tally(*(jnp.asarray(x, jnp.float32) for x in figures))


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
def test_the_multiplier_finds_its_size(scale):
    """Of a policy that breaks the limit in e^(−λ / scale) of the episodes, a segment later."""
    limits = (ilbo.Chance("level", at_most=0.0, probability=0.1),)
    episodes = jnp.zeros((4, 3)), jnp.ones((4, 3), bool)
    prices = Prices.first(limits, 3, [episodes])
    returns, broken = jnp.array([-1.0, 1.0]), 1.0
    shares = []
    for done in np.linspace(0.1, 1.0, 40):
        prices = prices.moved(limits, [tally(broken)], returns, jnp.asarray(done))
        broken += 0.7 * (float(jnp.exp(-prices.charges.multipliers[0] / scale)) - broken)
        shares.append(broken)
    high = limits[0].ends(tally(shares[-1]), 3.5)[1][0]
    assert 0.07 < float(high) < 0.13


def kept(mean):
    limits = (ilbo.Chance("level", at_most=0.0, probability=0.1),)
    return Kept.of(limits, [tally(mean)])


def test_what_keeps_limits_comes_before_what_earns_more():
    safe, safer, unsafe, worse = kept(0.02), kept(0.01), kept(0.3), kept(0.5)
    assert is_better(safe, 1.0, unsafe, 9.0)
    assert not is_better(unsafe, 9.0, safe, 1.0)
    assert is_better(safe, 2.0, safer, 1.0)
    assert is_better(unsafe, 1.0, worse, 9.0)
    limits = (ilbo.Chance("level", at_most=0.0, probability=0.1),)
    assert not Kept.unknown(limits, 3).all
    assert is_better(worse, 0.0, Kept.unknown(limits, 3), 0.0)
    assert remark(walk(limits), safe) is None
    assert "the least found is 0.3;" in remark(walk(limits), unsafe)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objective": "cvar:0.1"}, "objective=mean"),
        ({"critic": "discounted"}, "critic=time-left"),
        ({"estimator": "critic"}, "estimator=pathwise"),
    ],
)
def test_what_cannot_be_planned_with_limits_is_said_so(change, words):
    problem = walk(["E(effort) <= 2"])
    with pytest.raises(ilbo.UserError, match=words):
        ILBOTrainer.of(problem, ilbo.ILBO(**change), 10)
