"""Runs of RDDL problems: the folder carries the problem, and faults are told from results."""

import json

import jax.numpy as jnp
import pytest

pytest.importorskip("pyRDDLGym")

from ilbo.cli.main import main
from ilbo.runs.loading import load_policy

TANK = """
domain tank {{
    pvariables {{
        water   : {{ state-fluent, real, default = 1.0 }};
        release : {{ action-fluent, real, default = 0.0 }};
    }};
    cpfs {{ water' = water - release + Normal(0.0, 0.01); }};
    reward = {reward};
    action-preconditions {{ release >= 0; release <= max[water, 0.5]; }};
}}
non-fluents none {{ domain = tank; }}
instance tank_1 {{
    domain = tank;
    non-fluents = none;
    init-state {{ water = 2.0; }};
    max-nondef-actions = pos-inf;
    horizon = 4;
    discount = 1.0;
}}
"""
FLAGS = [
    "--layers", "4", "--depth", "2", "--window", "1", "--policy-batch", "2", "--critic-batch", "4",
    "--test-episodes", "4", "--evaluate-every", "2", "--episodes", "4",
]  # fmt: skip


def write(folder, reward):
    path = folder / "tank.rddl"
    path.write_text(TANK.format(reward=reward))
    return path


@pytest.mark.slow
def test_folder_of_an_rddl_run_needs_no_rddl_file(tmp_path, capsys):
    source, run = write(tmp_path, "-pow[water - 1, 2]"), tmp_path / "run"
    assert main(["plan", str(source), *FLAGS, "--out", str(run), "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    source.unlink()
    assert main(["evaluate", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == planned["mean"]
    assert float(load_policy(run).model.bounds(jnp.array([2.0]))[1][0]) == 2.0


@pytest.mark.slow
def test_reward_that_is_never_a_number_stops_with_a_sentence_and_keeps_the_policy(tmp_path, capsys):
    source, run = write(tmp_path, "ln[-1 - pow[water, 2]]"), tmp_path / "run"
    assert main(["plan", str(source), *FLAGS, "--out", str(run)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    last = said.err.strip().splitlines()[-1]
    assert last.startswith("ilbo: The reward is not finite at training step")
    assert str(run) in last
    assert load_policy(run) is not None


@pytest.mark.slow
def test_a_policy_whose_reward_is_no_number_gets_no_return_and_is_kept(tmp_path, capsys):
    source, run = write(tmp_path, "ln[water - 1]"), tmp_path / "run"
    assert main(["plan", str(source), *FLAGS, "--out", str(run)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "The model's reward is nan at step" in said.err.strip().splitlines()[-1]
    assert load_policy(run) is not None


@pytest.mark.slow
def test_a_reward_without_gradient_is_told_before_training(tmp_path, capsys):
    source, run = write(tmp_path, "3.0"), tmp_path / "run"
    assert main(["plan", str(source), *FLAGS, "--out", str(run)]) == 0
    said = capsys.readouterr()
    assert "has no gradient in the action" in said.err.splitlines()[0]
    assert "compared: no clear difference from" in said.out
