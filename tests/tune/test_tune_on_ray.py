"""A study on a real Ray cluster of two nodes, one of which dies while trials run."""

import threading

import pytest
import tiny_runs

import ilbo
from ilbo.experiments.engines import Ray
from ilbo.planning.loop import Hook
from ilbo.tune.places import Board, OnRay
from ilbo.tune.space import read_space
from ilbo.tune.trials import Trials, attempt, open_study
from ilbo.tune.tuning import tune

ray = pytest.importorskip("ray")
pytest.importorskip("optuna")
from two_nodes import PATIENCE, two_nodes, wait_until  # noqa: E402

TRIALS = 6


@pytest.mark.slow
def test_a_node_that_dies_costs_no_trial_and_none_counts_twice(tmp_path):
    space = tmp_path / "space.toml"
    space.write_text("policy_rate = {low = 1e-4, high = 1e-1, log = true}")
    problem, results, failures = ilbo.make("navigation-3"), [], []
    with two_nodes() as cluster:
        place = OnRay(Ray(cluster.address))

        def work():
            given = {"trials": TRIALS, "seeds": (0,), "fresh_seeds": 2, "space": space}
            try:
                found = tune(problem, tiny_runs.CONFIG, tmp_path / "study", place=place, **given)
                results.append(found)
            except BaseException as error:
                failures.append(error)

        driver = threading.Thread(target=work)
        driver.start()
        wait_until(lambda: not ray.available_resources().get("CPU"), "a trial on both nodes")
        cluster.remove_node(cluster.mortal, allow_graceful=False)
        driver.join(PATIENCE)
        assert not driver.is_alive()
    assert not failures
    trials = open_study(tmp_path / "study", 0, 0).trials
    assert [trial.number for trial in trials] == list(range(TRIALS))
    assert {trial.state.name for trial in trials} <= {"COMPLETE", "PRUNED"}
    assert results[0]["trials"] == TRIALS

    ranges, _ = read_space(space)
    here = Trials(problem, tiny_runs.CONFIG, ranges, (0,))
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    assert len(complete) >= 2
    for trial in complete:
        assert trial.value == pytest.approx(attempt(here, trial.params, Hook()).value, rel=1e-5)
    tuned = here.earned(here.settings(results[0]["best"]), [10_000, 10_001])
    means = [returns.mean() for returns in tuned]
    assert results[0]["tuned_mean"] == pytest.approx(sum(means) / 2, rel=1e-5)


def test_a_trial_that_was_given_up_hears_of_it_at_its_next_test():
    board = Board()
    assert not board.tell(3, 25, -1.0)
    board.give_up(3)
    assert board.take() == [(3, 25, -1.0)]
    assert board.tell(3, 50, -2.0)
    assert not board.tell(4, 25, -1.0)
    assert board.take() == [(3, 50, -2.0), (4, 25, -1.0)]


def test_a_model_in_python_is_not_sent():
    shared = Trials(tiny_runs.problem(), tiny_runs.CONFIG, {}, (0,))
    with pytest.raises(ilbo.UserError, match="'drift' is a model in Python"):
        OnRay.__new__(OnRay).check(shared)
