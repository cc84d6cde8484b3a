"""`ilbo check`, `ilbo inspect --check` and `ilbo evaluate --bound`."""

import json
from functools import partial

import pytest
from tiny_runs import CONFIG

import ilbo
from ilbo.baselines import bounding
from ilbo.cli.main import main

MODEL = """
import jax.numpy as jnp
import ilbo


class Tap(ilbo.Model):
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return 0.5 * state + jnp.maximum(action, 0.0) + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - 1) ** 2)

    def bounds(self, state):
        return jnp.full(1, -1.0), jnp.full(1, 1.0)


tap = ilbo.Problem(Tap(), name="tap", initial_state=[0.0], horizon=10, region=(-2.0, 2.0))
"""


def test_check_tells_what_is_off(tmp_path, capsys):
    path = tmp_path / "tap.py"
    path.write_text(MODEL)
    assert main(["check", f"{path}:tap", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["findings"]] == ["dead zone"]
    assert told["felt_after"] == {"a1": 0}
    assert main(["inspect", f"{path}:tap", "--check"]) == 0
    assert "what is off\n  dead zone: " in capsys.readouterr().out


@pytest.mark.slow
def test_evaluate_says_how_far_the_best_possible_is(tmp_path, capsys, monkeypatch):
    quick = partial(bounding.bound, episodes=4, steps=5, rounds=0)
    monkeypatch.setattr(bounding, "bound", quick)
    folder = tmp_path / "run"
    ilbo.plan(ilbo.make("navigation-3"), CONFIG, episodes=4, out=folder)
    assert main(["evaluate", str(folder), "--bound", "--json", "--episodes", "16"]) == 0
    told = json.loads(capsys.readouterr().out)
    bound = told["bound"]
    assert bound["mean"] == bound["policy_mean"] + bound["gap"]
    assert bound["gap"] >= 0
    assert bound["standard_error"] > 0
    assert bound["sentence"].startswith(f"{bound['policy_mean']:,.2f}, ")
