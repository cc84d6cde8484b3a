"""What version 0.1 wrote: policies and finished runs load, others are refused in a sentence."""

import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.cli.main import main
from ilbo.runs.results import evaluate_fresh
from ilbo.runs.saved import read_run

FILES = Path(tiny_runs.__file__).parent / "files_of_0_1"


def test_a_policy_file_acts_as_it_did():
    policy = ilbo.load_policy(FILES / "finished" / "policy.ilbo")
    start = ilbo.make("navigation-3").initial_state
    np.testing.assert_allclose(policy(start), [-0.01912063, 0.03810859], rtol=1e-5)
    own = ilbo.load_policy(FILES / "own-model.ilbo", tiny_runs.problem())
    np.testing.assert_allclose(own(jnp.ones(1)), [0.04244947], rtol=1e-5)


def test_a_finished_run_earns_what_its_result_says():
    run = read_run(FILES / "finished")
    assert run.config.layers == (4,)
    assert [record.episode for record in run.history[0]] == [2, 4]
    problem = run.problem()
    (result,) = evaluate_fresh(problem, run.policies(problem))
    assert result.mean == pytest.approx(run.result["mean"], rel=1e-5)


def test_runs_of_several_seeds_load():
    run = read_run(FILES / "two-seeds")
    assert len(run.policies(run.problem(), best=True)) == len(run.seeds) == 2


def test_an_unfinished_run_cannot_be_gone_on_with_and_says_so(tmp_path, capsys):
    shutil.copytree(FILES / "unfinished", tmp_path / "run")
    before = (tmp_path / "run" / "policy.ilbo").read_bytes()
    assert main(["plan", "--resume", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert "is of another version of ilbo" in said.splitlines()[-1]
    assert (tmp_path / "run" / "policy.ilbo").read_bytes() == before
    assert ilbo.load_policy(tmp_path / "run") is not None
