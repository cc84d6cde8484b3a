"""A small budget must already be far ahead of a random policy, on each family."""

import pytest

import ilbo

SMALL = {"layers": (64, 32), "depth": 5, "window": 5, "evaluate_every": 20}


@pytest.mark.parametrize(
    ("name", "episodes", "at_least"),
    [  # a random policy's mean is about −216, −2.18 M and −38,700
        ("navigation-3", 60, -110.0),
        pytest.param("hvac-3", 40, -1_200_000.0, marks=pytest.mark.slow),
        pytest.param("reservoir-10", 40, -9_000.0, marks=pytest.mark.slow),
    ],
)
def test_learns_from_few_episodes(name, episodes, at_least):
    problem = ilbo.make(name)
    plan = ilbo.plan(problem, ilbo.ILBO(**SMALL), episodes=episodes)
    assert ilbo.evaluate(problem, plan.policy, 12345, 256).mean > at_least
