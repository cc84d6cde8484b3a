"""`ilbo.plan`, `ilbo.resume` and `ilbo.Run`: the command line's runs from Python."""

import dataclasses
import signal
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.api import planning
from ilbo.api.progress import TrainingProgress
from ilbo.errors import UserError
from ilbo.planning.stopping import without_improvement
from ilbo.planning.warm_start import WarmStart
from ilbo.runs.further import earlier_policy
from ilbo.runs.saved import read_run

CONFIG = tiny_runs.CONFIG


def same_policies(first, second):
    for a, b in zip(first, second, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a.network, b.network)


@pytest.fixture(scope="module")
def problem():
    return tiny_runs.problem()


@pytest.fixture(scope="module")
def whole(problem, tmp_path_factory):
    """A run that was never stopped, and its plan."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    return path, ilbo.plan(problem, CONFIG, out=path)


def stop_at(episode):
    return lambda record: ilbo.STOP if record.episode == episode else None


def interrupt_at(episode):
    return lambda record: signal.raise_signal(signal.SIGINT) if record.episode == episode else None


def test_a_plan_with_a_folder_is_the_plan_without_one(whole, problem):
    _, plan = whole
    bare = ilbo.plan(problem, CONFIG)
    same_policies(bare.policies, plan.policies)
    assert plan.ending == "finished"


def test_the_folder_is_a_run_folder(whole, problem):
    path, plan = whole
    run = ilbo.Run(path, problem)
    assert run.history == plan.history
    assert run.config == CONFIG.settled()
    assert run.result["episodes"] == 10
    same_policies(run.policies, plan.policies)
    same_policies(run.best_policies, plan.best_policies)
    assert run.evaluate().mean == run.result["mean"]
    assert (path / "curve.png").exists()
    assert repr(run) == f"<Run '{path}': drift, finished>"


def test_a_run_writes_its_report(whole, problem, tmp_path):
    page = ilbo.Run(whole[0], problem).report(tmp_path / "page.html")
    assert "What the policy does" in page.read_text()


def test_a_run_of_an_model_files_asks_for_the_problem(whole):
    run = ilbo.Run(whole[0])
    assert run.history
    with pytest.raises(UserError, match="model of your own"):
        _ = run.problem
    with pytest.raises(UserError, match="model of your own"):
        ilbo.resume(whole[0])


def test_a_folder_that_is_taken_is_refused_before_training(whole, problem):
    with pytest.raises(UserError, match="finished run of drift"):
        ilbo.plan(problem, CONFIG, out=whole[0])


def test_settings_that_make_no_sense_leave_no_folder(problem, tmp_path):
    with pytest.raises(UserError, match="not both"):
        ilbo.plan(problem, CONFIG, episodes=3, seconds=3.0, out=tmp_path / "a")
    with pytest.raises(UserError, match="successive"):
        ilbo.plan(problem, CONFIG, seeds=(1, 4), out=tmp_path / "a")
    config = dataclasses.replace(CONFIG, policy=lambda key, inputs, outputs: None)
    with pytest.raises(UserError):
        ilbo.plan(problem, config, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_ctrl_c_returns_what_was_found_and_the_run_goes_on_to_the_same_end(
    whole, problem, tmp_path, capsys
):
    path, plan = whole
    stopped = ilbo.plan(problem, CONFIG, out=tmp_path / "run", progress=interrupt_at(4))
    assert (stopped.ending, stopped.episode) == ("stopped", 4)
    assert "stopping after this segment" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert read_run(tmp_path / "run").result is None
    again = ilbo.resume(tmp_path / "run", problem)
    assert (again.ending, again.episode) == ("finished", 10)
    same_policies(again.policies, plan.policies)
    assert (tmp_path / "run" / "policy.ilbo").read_bytes() == (path / "policy.ilbo").read_bytes()
    assert ilbo.Run(tmp_path / "run", problem).result["mean"] == read_run(path).result["mean"]


def test_ctrl_c_twice_raises_and_the_run_can_go_on(whole, problem, tmp_path):
    def twice(record):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ilbo.plan(problem, CONFIG, out=tmp_path / "run", progress=twice)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = ilbo.resume(tmp_path / "run", problem)
    same_policies(again.policies, whole[1].policies)


def test_progress_sees_record_and_policy_and_ends_training(problem):
    seen = []

    def look(record, policy):
        seen.append((record.seed, record.episode, policy(problem.initial_state).shape))
        return ilbo.STOP if record.episode >= 4 else None

    plan = ilbo.plan(problem, CONFIG, seeds=2, progress=look)
    assert (plan.ending, plan.episode, plan.is_finished) == ("progress", 4, True)
    assert seen == [(seed, episode, (1,)) for episode in (2, 4) for seed in (0, 1)]


def test_a_run_ended_by_progress_is_finished(problem, tmp_path):
    path = tmp_path / "run"
    ilbo.plan(problem, CONFIG, out=path, progress=stop_at(4))
    assert read_run(path).result["episodes"] == 4
    again = ilbo.resume(path, problem)
    assert (again.ending, again.episode) == ("finished", 4)


def test_progress_may_be_a_bar_or_a_function_and_nothing_else(problem, capsys):
    ilbo.plan(problem, CONFIG, episodes=4, progress="bar")
    said = capsys.readouterr().err
    assert "drift, seed 0, 4 episodes" in said
    assert "episode 4/4" in said
    with pytest.raises(UserError, match='must be "bar"'):
        ilbo.plan(problem, CONFIG, progress="lines")


def test_compiling_is_told_where_it_takes_long_and_only_there(problem, capsys, monkeypatch):
    ilbo.plan(problem, CONFIG, episodes=2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(planning, "SILENCE", 0.0)
    ilbo.plan(problem, CONFIG, episodes=2)
    assert capsys.readouterr().err.startswith("ilbo: compiling")


def test_target_ends_training_once_it_is_reached(whole, problem):
    reached = whole[1].history[0][2].current
    first = next(r.episode for r in whole[1].history[0] if r.current >= reached)
    plan = ilbo.plan(problem, CONFIG, target=reached)
    assert (plan.ending, plan.episode) == ("target", first)


def record(episode, best, current=None):
    return ilbo.Record(0, episode, best if current is None else current, best, *([0.0] * 5))


def test_tests_without_a_better_policy_are_counted_since_the_best():
    best = [-5.0, -3.0, -3.0, -3.0, -2.0, -2.0]
    history = [record(i + 1, value) for i, value in enumerate(best)]
    counts = [without_improvement(history[:i]) for i in range(7)]
    assert counts == [0, 0, 0, 1, 2, 0, 1]
    assert without_improvement(history, since=2) == 1
    assert without_improvement(history, since=5) == 0


def test_patience_ends_training_after_so_many_tests_without_a_better_policy(whole, problem):
    def waits(tests):
        return [without_improvement(whole[1].history[0][:i]) >= tests for i in range(1, 6)]

    for tests in (1, 2, 5):
        plan = ilbo.plan(problem, CONFIG, patience=tests)
        early = 2 * (1 + waits(tests).index(True)) if any(waits(tests)) else 10
        assert plan.episode == early
        assert plan.ending == ("patience" if early < 10 else "finished")


@pytest.mark.parametrize("rule", [{"patience": 0}, {"patience": 1.5}, {"target": float("nan")}])
def test_rules_that_make_no_sense_are_refused(problem, rule):
    (name,) = rule
    with pytest.raises(UserError, match=f"setting {name} must be"):
        ilbo.plan(problem, CONFIG, **rule)


def test_a_stopped_run_keeps_its_rules(problem, tmp_path, whole):
    patient = ilbo.plan(problem, CONFIG, patience=1)
    stopped = ilbo.plan(problem, CONFIG, patience=1, out=tmp_path / "run", progress=interrupt_at(2))
    assert stopped.episode == 2
    again = ilbo.resume(tmp_path / "run", problem)
    assert (again.ending, again.episode) == (patient.ending, patient.episode)
    same_policies(again.policies, patient.policies)


def test_a_finished_run_is_trained_further(whole, problem, tmp_path):
    path = tmp_path / "run"
    ilbo.plan(problem, CONFIG, out=path)
    longer = ilbo.resume(path, problem, episodes=16)
    assert (longer.ending, longer.episode) == ("finished", 16)
    assert [r.episode for r in longer.history[0]] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert longer.history[0][:5] == read_run(path).history[0][:5]
    run = ilbo.Run(path, problem)
    assert (run.config.episodes, run.result["episodes"]) == (16, 16)
    assert run._saved.run_keys["further_from"] == 10


@pytest.mark.slow
def test_a_run_trained_further_and_stopped_ends_with_the_same_policy(problem, tmp_path):
    for name in ("a", "b"):
        ilbo.plan(problem, CONFIG, out=tmp_path / name)
    longer = ilbo.resume(tmp_path / "a", problem, episodes=16)
    stopped = ilbo.resume(tmp_path / "b", problem, episodes=16, progress=interrupt_at(14))
    assert stopped.episode == 14
    same_policies(ilbo.resume(tmp_path / "b", problem).policies, longer.policies)


@pytest.mark.slow
def test_a_run_made_longer_before_it_ended_has_the_schedule_of_the_longer_one(problem, tmp_path):
    """Rates and exploration follow the share of the whole, whenever its length was said."""
    longer = ilbo.plan(problem, CONFIG, episodes=16)
    ilbo.plan(problem, CONFIG, episodes=10, out=tmp_path / "run", progress=interrupt_at(2))
    said_late = ilbo.resume(tmp_path / "run", problem, episodes=16)
    assert said_late.episode == longer.episode == 16
    assert said_late.config.episodes == 16
    # The first segment had a faster decay; a schedule of 10 episodes is over long before the 16th.
    changed = [a.current != b.current for a, b in zip(*map(one, (said_late, longer)), strict=True)]
    assert any(changed)


def one(plan):
    return plan.history[0]


@pytest.mark.slow
def test_rules_of_a_run_trained_further_count_from_there(problem, tmp_path):
    path = tmp_path / "run"
    ended = ilbo.plan(problem, CONFIG, patience=1, out=path)
    longer = ilbo.resume(path, problem, episodes=20)
    assert longer.episode == 20
    assert "patience" not in read_run(path).run_keys
    again = ilbo.resume(path, problem, episodes=40, patience=1)
    assert ended.episode < again.episode
    assert again.episode > 20


def test_lengths_that_make_no_sense_are_refused(whole, problem):
    path = whole[0]
    for given, wanted in (
        ({"episodes": 10}, "has had 10 episodes.*ask for more"),
        ({"seconds": 1e-9}, "seconds says how many in all: ask for more"),
        ({"episodes": 20, "seconds": 9.0}, "not both"),
        ({"patience": 2}, "has finished: say how long"),
    ):
        with pytest.raises(UserError, match=wanted):
            ilbo.resume(path, problem, **given)
    assert read_run(path).result is not None


@pytest.mark.slow
def test_a_run_by_the_clock_is_trained_further_by_episodes(problem, tmp_path):
    path = tmp_path / "run"
    begun = ilbo.plan(problem, CONFIG, seconds=0.01, out=path)
    assert read_run(path).config.seconds == 0.01
    episodes = begun.episode + 4
    longer = ilbo.resume(path, problem, episodes=episodes)
    assert longer.episode == episodes
    assert read_run(path).config.seconds is None


def begun_with(problem, policy, **options):
    """The policies of all seeds before training."""
    planner = tiny_runs.planner(problem, seeds=(0, 1), **options)
    start = WarmStart(policy).begin(planner)
    assert start.episode == 0
    return [policy for kind in planner.policies(start.seeds) for policy in kind]


@pytest.mark.parametrize("vectorise", [False, True])
def test_a_warm_start_has_all_seeds_begin_with_the_earlier_policy(whole, problem, vectorise):
    path, plan = whole
    for given in (plan.policy, path, str(path / "policy.ilbo")):
        policies = begun_with(problem, earlier_policy(given, problem, None), vectorise=vectorise)
        same_policies(policies, [plan.policy] * 4)


def test_a_warm_start_is_the_same_policy_in_another_region(whole):
    plan = whole[1]
    wider = ilbo.Problem(
        tiny_runs.Drift(), name="other", initial_state=[1.0], horizon=4, region=(-2.0, 5.0),
        state_names=("place",),
    )  # fmt: skip
    states = jnp.linspace(-2.0, 2.0, 9)[:, None]
    for policy in begun_with(wider, plan.policy):
        np.testing.assert_allclose(policy(states), plan.policy(states), atol=1e-5)


def test_a_run_killed_before_its_first_checkpoint_has_its_warm_start_still(
    whole, problem, tmp_path
):
    path, earlier = tmp_path / "run", whole[1].policy
    warm = ilbo.plan(problem, CONFIG, warm_start=earlier, out=path)
    for name in ("checkpoint.ilbo", "result.json", "policy.ilbo", "best.ilbo", "metrics.jsonl"):
        (path / name).unlink()
    same_policies(ilbo.resume(path, problem).policies, warm.policies)


def test_warm_starts_that_do_not_fit_are_refused(whole, problem):
    path, plan = whole
    with pytest.raises(UserError, match=r"hidden layers 4, and the run 5: .*--layers 4"):
        ilbo.plan(problem, dataclasses.replace(CONFIG, layers=(5,)), warm_start=path)
    two = tiny_runs.problem(states=2)
    with pytest.raises(UserError, match="is for 1 states and 1 actions; drift has 2 and"):
        ilbo.plan(two, CONFIG, warm_start=path)
    with pytest.raises(UserError, match="network of another form"):
        ilbo.plan(two, CONFIG, warm_start=plan.policy)
    with pytest.raises(UserError, match="object of type function"):
        ilbo.plan(problem, CONFIG, warm_start=lambda state: state)


@pytest.mark.slow
def test_a_built_in_problem_needs_nothing(tmp_path):
    ilbo.plan("navigation-3", CONFIG, episodes=2, out=tmp_path / "run")
    longer = ilbo.resume(tmp_path / "run", episodes=4)
    assert longer.problem.name == "navigation-3"
    assert ilbo.Run(tmp_path / "run").policy(longer.problem.initial_state).shape == (2,)


def test_problems_may_be_named(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("ilbo.planning.loop.plan", lambda problem, *_, **__: seen.append(problem))
    file = tmp_path / "mine.py"
    file.write_text("import tiny_runs\nproblem = tiny_runs.problem()\n")
    ilbo.plan("navigation-3")
    ilbo.plan(f"{file}:problem")
    assert [problem.name for problem in seen] == ["navigation-3", "drift"]
    with pytest.raises(UserError, match="did you mean 'navigation-3'"):
        ilbo.plan("navigaton-3")
    with pytest.raises(UserError, match="There is no file"):
        ilbo.plan(str(tmp_path / "none.py:problem"))


def test_notebooks_get_a_widget(monkeypatch, capsys):
    """By stand-ins for IPython and ipywidgets that note what they are told."""
    shown = []

    def module(**names):
        return types.SimpleNamespace(**names)

    shell = module(get_ipython=lambda: module(kernel=object()))
    parts = module(
        FloatProgress=lambda **given: module(value=0.0, **given),
        Label=lambda text: module(value=text),
        HBox=lambda children: module(children=children),
    )
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", module(display=shown.append))
    monkeypatch.setitem(sys.modules, "ipywidgets", parts)
    with TrainingProgress("drift", 50, 1) as progress:
        progress(ilbo.Record(0, 25, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 2.0))
    (row,) = shown
    title, bar, news = row.children
    assert (title.value, bar.value, bar.max) == ("drift", 25.0, 50.0)
    assert news.value.startswith("now ")
    assert capsys.readouterr().err == ""
