"""Limits: their texts, what they are estimated by, and what is said of simulated episodes."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest

import ilbo
from ilbo.mdp.limits import Tally, broken_after, edge, limit_of


class Walk(ilbo.Model):
    law = ilbo.Gaussian(1)
    share: float = 1.0

    def transition(self, state, action, noise):
        return state + action + 0.5 * noise

    def reward(self, state, action, next_state):
        return action[0]

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)

    def terminal(self, state):
        return state[0] > 50

    def costs(self, state, action, next_state, time):
        return {"level": next_state[0], "late": self.share * time * action[0] ** 2}

    def heuristic(self, state):
        return jnp.full(1, 0.5)


def walk(limits=(), **more):
    return ilbo.Problem(
        Walk(),
        name="walk",
        initial_state=[0.0],
        horizon=4,
        region=(-5.0, 5.0),
        limits=limits,
        **more,
    )


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("E(late) <= 400", ilbo.Expected("late", 400)),
        (" each E( late )<=2e1", ilbo.EachStep("late", 20)),
        ("P(level > -0.5) <= 0.05", ilbo.Chance("level", -0.5, 0.05)),
    ],
)
def test_a_limit_is_its_text(text, limit):
    assert limit_of(text) == limit
    assert limit_of(str(limit)) == limit
    assert walk([text]).limits == walk().with_limits([limit]).limits == (limit,)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: walk(["P(level > 0) <= 1.5"]), r"probability=1.5; it must be in \(0, 1\)"),
        (lambda: ilbo.Chance("level", 0, 0), "probability=0"),
        (lambda: ilbo.Expected("level", np.nan), "at_most=nan; it must be a finite number"),
        (lambda: walk(["E(leve) <= 1"]), "no cost 'leve'; did you mean 'level'?"),
        (lambda: walk(["level <= 1"]), "'level <= 1' is no limit; write one such as"),
        (lambda: walk(["E(level) <= 1.2.3"]), "'1.2.3' is no number"),
        (lambda: walk("E(level) <= 1"), "limits is a list such as"),
        (lambda: ilbo.make("navigation-3").with_limits(["E(x) <= 1"]), "the model has no costs"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(wrong, words):
    with pytest.raises(ilbo.UserError, match=words):
        wrong()


@pytest.mark.parametrize(("costs", "words"), [(3.0, "a dict"), ({"a": jnp.ones(2)}, "a scalar")])
def test_costs_are_scalars_by_name(costs, words):
    class Wrong(Walk):
        def costs(self, state, action, next_state):
            return costs

    with pytest.raises(ilbo.UserError, match=words):
        ilbo.Problem(Wrong(), name="w", initial_state=[0.0], horizon=4, region=(-5.0, 5.0))


@pytest.mark.parametrize(("broken", "count"), [(0, 50), (3, 2048), (40, 41)])
def test_a_chance_has_wilsons_interval(broken, count):
    costs = np.zeros((count, 3))
    costs[:broken, 1] = 2.0
    limit = ilbo.Chance("level", at_most=1.0, probability=0.1)
    samples = limit.samples(costs, np.ones(costs.shape, bool))
    tally = Tally.of(samples.astype(float))
    wanted = binomtest(broken, count).proportion_ci(method="wilson")
    low, high = limit.ends(tally, 1.959964)
    assert [low[0], high[0]] == pytest.approx([wanted.low, wanted.high], abs=1e-6)


def test_tallies_add_up():
    x = np.random.default_rng(0).normal(2.0, 3.0, (70, 2))
    both = Tally.of(x[:30]).adding(Tally.of(x[30:]))
    np.testing.assert_allclose(both.mean, x.mean(axis=0))
    np.testing.assert_allclose(both.variance, x.var(axis=0))


def test_what_is_broken_is_one_less_the_product_of_what_is_not():
    limits = (ilbo.Expected("a", 0.0), ilbo.Chance("b", 1.0, 0.1))
    widths, broken, left = jnp.array([9.0, 2.0]), jnp.zeros(1), 1.0
    for cost in (-3.0, 0.5, 1.0, 4.0):
        broken = broken_after(limits, widths, broken, {"a": 7.0, "b": jnp.array(cost)})
        left *= 1 - float(edge(jnp.array((cost - 1) / 2)))
    assert float(edge(jnp.array(0.0))) == 0.5
    assert float(broken[0]) == pytest.approx(1 - left, rel=1e-5)


@pytest.mark.parametrize("uncertain", [None, {"share": ilbo.Uniform(0.5, 1.5)}])
def test_episodes_are_charged_what_they_cost(uncertain):
    limits = ["E(late) <= 2", "each E(late) <= 0.74", "P(level > 3) <= 0.2"]
    problem = walk(limits, uncertain=uncertain)
    found = ilbo.evaluate(problem, "heuristic", 3, episodes=4000)
    path = ilbo.simulate(problem, "heuristic", 3, episodes=4000)
    share = 1.0 if uncertain is None else float(path.drawn.mean())
    late, level = found.costs[1], found.costs[0]
    assert late.mean == pytest.approx(0.25 * (0 + 1 + 2 + 3) * share, rel=1e-5)
    assert late.worst_step == pytest.approx(0.75 * share, rel=1e-5)
    levels = np.asarray(path.states)[:, 1:, 0]
    assert level.mean == pytest.approx(levels.sum(axis=1).mean(), rel=1e-5)
    total, step, chance = found.limits
    assert total.value == late.mean
    assert total.kept
    assert step.step == 4
    assert step.value == pytest.approx(0.75 * share, rel=1e-5)
    assert not step.kept
    assert chance.value == pytest.approx((levels.max(axis=1) > 3).mean())
    assert chance.sentence.startswith("P(level > 3) <= 0.2: ")
