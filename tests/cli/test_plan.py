"""`ilbo plan`, `evaluate`, `compare` and `export`, from arguments to exit codes."""

import dataclasses
import json
import re
import sys
import threading
from concurrent.futures import Future

import pytest
import tiny_runs

import ilbo
from ilbo.api.progress import TrainingProgress
from ilbo.cli import fields
from ilbo.cli import plan as cli_plan
from ilbo.cli.main import main, parse
from ilbo.planning.config import GROUPS
from ilbo.planning.records import Record
from ilbo.planning.scouting import Scouting
from ilbo.plots import pictures
from ilbo.registry import names
from ilbo.runs import results
from ilbo.runs.loading import load_policy
from ilbo.runs.saved import read_run
from ilbo.runs.settings import FIELDS


def answer(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def refusal(capsys, *arguments):
    """The sentence of a command that must be refused."""
    code, out, err = answer(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("ilbo: ")
    assert err.count("\n") == 1
    return err


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The folder of a finished run."""
    path = tmp_path_factory.mktemp("runs") / "a"
    assert main(["plan", "navigation-3", *tiny_runs.FLAGS, "--out", str(path), "--json"]) == 0
    return path


def test_help_shows_every_setting_in_its_group(capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    shown = capsys.readouterr().out
    general, *groups = re.split(r"\n\W+(\w+) options\b", shown)
    flags = {
        title: set(re.findall(r"--([a-z][a-z-]*) ", text))
        for title, text in zip(groups[::2], groups[1::2], strict=True)
    }
    wanted = {
        group: {name.replace("_", "-") for name in names if name in FIELDS}
        for group, names in GROUPS.items()
    }
    assert flags == wanted
    assert all(f"--{name} " in general for name in ("seed", "seeds", "preset"))


def test_flags_are_read_as_the_settings_types():
    chosen = parse("plan", ["hvac-3", "--layers", "7", "3", "--prioritised", "True", "--clip", "0"])
    assert fields.given(chosen.settings) == {"layers": (7, 3), "prioritised": True, "clip": 0.0}
    assert ilbo.ILBO(**fields.given(chosen.settings)).layers == (7, 3)


def test_run_folder_holds_result_and_pictures(planned):
    run = read_run(planned)
    assert run.config == tiny_runs.CONFIG.settled()
    assert run.result["problem"] == "navigation-3"
    wanted = {
        "problem", "seed", "episodes", "mean", "std", "best_mean", "seconds", "compile_seconds",
        "transitions", "model_evaluations", "gradient_steps",
    }  # fmt: skip
    assert wanted <= set(run.result)
    assert run.result["transitions"] == 10 * 20
    for picture in ("curve.png", "trajectories.png"):
        assert (planned / picture).read_bytes().startswith(b"\x89PNG")


def test_evaluate_repeats_the_result_of_the_run(planned, capsys):
    code, out, _ = answer(capsys, "evaluate", planned, "--json")
    found, result = json.loads(out), read_run(planned).result
    assert code == 0
    assert (found["mean"], found["std"]) == (result["mean"], result["std"])
    quantiles = list(found["quantiles"].values())
    assert quantiles == sorted(quantiles)
    code, out, _ = answer(capsys, "evaluate", planned / "policy.ilbo", "--episodes", 16)
    assert code == 0
    assert "quantiles" in out


def test_evaluate_takes_a_start_and_a_seed(planned, capsys):
    arguments = ("evaluate", planned, "--episodes", 8, "--seed", 4, "--json")
    own = json.loads(answer(capsys, *arguments)[1])
    near = json.loads(answer(capsys, *arguments, "--start", 8, 8)[1])
    assert own["mean"] < near["mean"]
    assert "2 state components" in refusal(capsys, "evaluate", planned, "--start", 1)


def test_compare_names_the_better_policy(planned, capsys):
    names = [str(planned), "heuristic", "midpoint"]
    code, out, _ = answer(capsys, "compare", *names, "--episodes", 64, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["ranking"][0]["label"] == "heuristic"
    assert found["verdict"].startswith("heuristic, the best of 3, is better than")
    _, out, _ = answer(capsys, "compare", planned, planned / "policy.ilbo", "--episodes", 16)
    assert "exactly the same in every episode" in out
    assert "at least two" in refusal(capsys, "compare", planned)


def test_export_writes_files_that_load(planned, capsys, tmp_path):
    code, out, _ = answer(capsys, "export", planned, "--to", tmp_path / "x")
    assert code == 0
    assert "load_policy" in out
    assert load_policy(tmp_path / "x" / "policy.stablehlo")([0.0, 0.0]).shape == (2,)


def test_config_of_a_run_repeats_it(planned, capsys, tmp_path):
    path = tmp_path / "again"
    arguments = ("plan", "--config", planned / "config.toml", "--out", path, "--json")
    code, out, _ = answer(capsys, *arguments)
    assert code == 0
    assert json.loads(out)["mean"] == read_run(planned).result["mean"]
    assert (path / "policy.ilbo").read_bytes() == (planned / "policy.ilbo").read_bytes()


def test_several_seeds_give_a_list_of_figures(capsys, tmp_path):
    path = tmp_path / "two"
    arguments = ("plan", "navigation-3", *tiny_runs.FLAGS, "--seeds", 2, "--out", path)
    code, out, _ = answer(capsys, *arguments)
    assert code == 0
    assert "mean of the seeds" in out
    code, out, err = answer(capsys, "plan", "--resume", path, "--json")
    found = json.loads(out)
    assert code == 0
    assert "has finished" in err
    assert found["seeds"] == [0, 1]
    assert len(found["means"]) == len(found["best_means"]) == 2
    code, out, _ = answer(capsys, "evaluate", path / "seed-1", "--json")
    assert json.loads(out)["mean"] == found["means"][1]
    assert "name one" in refusal(capsys, "export", path)


def test_tensorboard_events_hold_the_records(capsys, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = tmp_path / "run"
    arguments = ("plan", "navigation-3", *tiny_runs.FLAGS, "--out", path, "--log", "tensorboard")
    assert answer(capsys, *arguments)[0] == 0
    read = events.EventAccumulator(str(path / "tensorboard" / "seed-0")).Reload()
    current = [(event.step, event.value) for event in read.Scalars("ilbo/current")]
    wanted = [(r.episode, pytest.approx(r.current, rel=1e-6)) for r in read_run(path).history[0]]
    assert current == wanted


def test_a_terminal_gets_a_live_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    first = Record(0, 2, -5.0, -4.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    with TrainingProgress("drift, seed 0 to 1", 4, seeds=2) as bar:
        for episode in (2, 4):
            for seed, current in ((0, -5.0), (1, -3.0)):
                bar(dataclasses.replace(first, seed=seed, episode=episode, current=current))
    said = capsys.readouterr()
    assert said.out == ""
    for word in ("drift, seed 0 to 1", "4/4", "now -4.00", "best -4.00", "episodes/s", "0:00 left"):
        assert word in said.err


@pytest.mark.parametrize("current", [-5.0, -482_611.79])
def test_at_80_columns_bar_and_time_left_stay(monkeypatch, capsys, current):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    first = Record(0, 250, current, current, 0.0, 0.0, 0.0, 0.0, 1.0)
    with TrainingProgress("reservoir-20, seed 0 to 9, 500 episodes", 500, seeds=1) as bar:
        bar(first)
        bar(dataclasses.replace(first, episode=500))
    *_, last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err).split("\r")
    assert "━" * 14 in last
    for word in ("500/500", "0:00 left", f"now {current:,.2f}", f"best {current:,.2f}"):
        assert word in last
    assert max(map(len, last.splitlines())) <= 80


def test_one_episode_has_no_interval(planned, capsys):
    code, out, _ = answer(capsys, "evaluate", planned, "--episodes", 1)
    assert code == 0
    assert "±" not in out
    assert "no interval can be given" in out
    _, out, _ = answer(capsys, "evaluate", planned, "--episodes", 1, "--json")
    found = json.loads(out)
    assert (found["std"], found["ci95"], found["yardsticks"][0]["ci95"]) == (None, None, None)


def test_plan_and_evaluate_say_how_the_policy_compares(planned, capsys):
    result = json.loads((planned / "result.json").read_text())
    _, out, _ = answer(capsys, "evaluate", planned, "--json")
    found = json.loads(out)
    assert result["yardsticks"] == found["yardsticks"]
    assert result["cvar10"] == found["cvar10"] < found["mean"]
    controller, simple = found["yardsticks"]
    assert controller["policy"] == "heuristic"
    assert simple["policy"] in ("midpoint", "hold", "random")
    assert controller["difference"] == pytest.approx(found["discounted_mean"] - controller["mean"])
    _, out, _ = answer(capsys, "evaluate", planned)
    assert "worst 10 %" in out
    assert "the problem's own controller (-78.49)" in out


def test_refusals_of_plan_say_what_to_do(planned, capsys, tmp_path):
    assert "finished run of navigation-3" in refusal(capsys, "plan", "hvac-3", "--out", planned)
    assert "Name a problem" in refusal(capsys, "plan")
    assert "did you mean 'hvac-3'" in refusal(capsys, "plan", "hvac3")
    assert "--overwrite needs --out" in refusal(capsys, "plan", "hvac-3", "--overwrite")
    assert "leave out --depth" in refusal(capsys, "plan", "--resume", planned, "--depth", 3)
    assert "no run in the folder" in refusal(capsys, "plan", "--resume", tmp_path)
    assert "0 to 2³² − 1" in refusal(capsys, "plan", "hvac-3", "--seed", -1)
    assert "number of seeds" in refusal(capsys, "plan", "hvac-3", "--seeds", 0)
    (tmp_path / "c.toml").write_text("dept = 3")
    assert "did you mean 'depth'" in refusal(
        capsys, "plan", "hvac-3", "--config", tmp_path / "c.toml"
    )
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "below"
    assert "Cannot write" in refusal(capsys, "plan", "hvac-3", *tiny_runs.FLAGS, "--out", out)


def test_policy_for_another_problem_is_refused(planned, capsys):
    assert "not for 'hvac-3'" in refusal(capsys, "evaluate", planned, "hvac-3")
    assert "no file" in refusal(capsys, "evaluate", "nowhere.ilbo")


def test_what_the_end_needs_waits_for_the_training_program(monkeypatch):
    """Compiling both at once would only delay the training."""
    evaluated = threading.Event()
    training: Future = Future()
    planner = tiny_runs.planner(ilbo.make("navigation-3"))
    planner.prepare = lambda: training
    monkeypatch.setattr(results, "evaluate_fresh", lambda *_: evaluated.set())
    monkeypatch.setattr(pictures, "draw_trajectories", lambda *_: None)
    thread = threading.Thread(target=cli_plan._get_ready, args=(planner,))
    thread.start()
    assert not evaluated.wait(0.2)
    training.set_result(None)
    thread.join()
    assert evaluated.is_set()


@pytest.mark.slow
def test_a_problem_is_built_once_for_a_plan(tmp_path, monkeypatch):
    built = []
    plain = names.built_in
    monkeypatch.setattr(names, "built_in", lambda name: built.append(name) or plain(name))
    assert main(["plan", "hvac-3", *tiny_runs.FLAGS, "--out", str(tmp_path / "run"), "--json"]) == 0
    assert built == ["hvac-3"]


def test_a_time_budget_too_short_to_compile_says_so_and_gives_what_there_is(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(Scouting, "of", lambda *_: None)  # compiles much, and is tested on its own
    flags = [*tiny_runs.FLAGS, "--seconds", "0.001", "--out", str(tmp_path / "run"), "--json"]
    assert main(["plan", "navigation-3", *flags]) == 0
    printed = capsys.readouterr()
    assert "were over before the first test" in printed.err
    assert json.loads(printed.out)["episodes"] == 2
    assert "seconds = 0.001" in (tmp_path / "run" / "config.toml").read_text()


def test_a_time_budget_of_nothing_is_refused(capsys):
    assert "seconds must be a positive number" in refusal(capsys, "plan", "hvac-3", "--seconds", 0)
