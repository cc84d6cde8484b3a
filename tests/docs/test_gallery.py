"""The gallery's examples: short, sound, and better than their rules."""

from pathlib import Path

import numpy as np
import pytest

import ilbo
from ilbo.mdp import probe
from ilbo.planning import loop

ROOT = Path(__file__).parents[2]
NAMES = ("hourly_prices", "inventory", "two_tanks", "quadcopter", "house", "year_of_rain")


def problem_of(name):
    return ilbo.make(f"{ROOT}/examples/{name}.py:problem")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_has_a_picture(name):
    assert problem_of(name).model.heuristic
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 80
    picture = ROOT / "docs" / "figures" / f"gallery-{name}.png"
    assert picture.stat().st_size <= 60_000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_sound(name):
    problem = problem_of(name)
    assert probe.remarks(problem) == []
    rule = ilbo.evaluate(problem, "heuristic", 0, episodes=16)
    assert rule.mean > ilbo.evaluate(problem, "midpoint", 0, episodes=16).mean


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_trains(name):
    problem = problem_of(name)
    config = ilbo.ILBO(layers=(8,), depth=1, window=1, guard=8, test_episodes=8)
    plan = loop.plan(problem, config, episodes=4)
    assert plan.policy.timed == problem.sees_time
    assert np.isfinite(plan.history[0][-1].current)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_trained_policy_beats_the_example_s_rule(name):
    problem = problem_of(name)
    plan = loop.plan(problem, episodes=300)
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=256)
    assert found.ci95[0] > 0
