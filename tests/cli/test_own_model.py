"""A model of the user's own in a file, on the command line, from plan to report."""

import json
import shutil
import sys

import jax
import model_files
import numpy as np
import pytest
import tiny_runs
from test_plan import answer, refusal

import ilbo
from ilbo.errors import UserError
from ilbo.runs.saved import read_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the model and a finished run of it."""
    path, before = tmp_path_factory.mktemp("own"), list(sys.path)
    model_files.write(path / "drift.py")
    assert tiny_plan(path / "drift.py", path / "run") == 0
    yield path
    sys.path[:] = before


def tiny_plan(file, out, *more):
    from ilbo.cli.main import main

    name = [f"{file}:make", "--arg", "pull=1.0"]
    return main(["plan", *name, *tiny_runs.FLAGS, "--out", str(out), "--json", *more])


@pytest.fixture
def own(folder, tmp_path):
    """A copy of the run, and the model that it names."""
    shutil.copytree(folder / "run", tmp_path / "run")
    return tmp_path / "run", f"{folder / 'drift.py'}:make"


@pytest.fixture
def moved(own, tmp_path):
    """A run whose model may be changed: the folder names a file of its own."""
    path, _ = own
    file = model_files.write(tmp_path / "drift.py")
    meta = json.loads((path / "meta.json").read_text())
    meta["source"] |= {"path": str(file), "reference": f"{file}:make"}
    (path / "meta.json").write_text(json.dumps(meta))
    return path, file


def test_the_folder_keeps_path_hash_arguments_and_a_copy(folder):
    run = read_run(folder / "run")
    assert run.source.path == str(folder / "drift.py")
    assert run.source.arguments == {"pull": "1.0"}
    assert (folder / "run" / "model.py").read_text() == model_files.TEXT
    assert run.run_keys["arg"] == ["pull=1.0"]
    assert run.result["problem"] == "drift"


def test_every_command_takes_the_model_by_name(own, capsys, tmp_path):
    path, model = own
    named = ("--arg", "pull=1.0")
    result = read_run(path).result
    code, out, err = answer(capsys, "evaluate", path, model, *named, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["mean"] == result["mean"]
    compared = answer(
        capsys, "compare", path, "heuristic", "--problem", model, *named, "--episodes", 64
    )
    assert compared[0] == 0
    assert "heuristic" in compared[1]
    assert answer(capsys, "export", path, model, *named, "--to", tmp_path / "x")[0] == 0
    page = tmp_path / "page.html"
    assert answer(capsys, "report", path, "--problem", model, *named, "--out", page)[0] == 0
    assert "What the policy does" in page.read_text()
    assert answer(capsys, "simulate", model, *named, "--policy", "heuristic")[0] == 0
    code, out, _ = answer(capsys, "inspect", model, *named, "--json")
    assert json.loads(out)["horizon"] == 4


def test_reading_a_folder_runs_no_code_unless_it_is_trusted(moved, capsys, tmp_path):
    path, file = moved
    ran = tmp_path / "ran"
    model_files.write(file, f"open({str(ran)!r}, 'w').close()\n" + model_files.TEXT)
    for words in (["evaluate"], ["compare", "heuristic"], ["export"], ["plan", "--resume"]):
        first, *rest = words
        more = ["--episodes", 20] if first == "plan" else []
        said = refusal(capsys, first, *rest, path, *more)
        assert "runs no code: name the model, " in said
        assert "drift.py:make --arg pull=1.0, or say --trust" in said
    assert answer(capsys, "report", path, "--out", tmp_path / "page.html")[0] == 0
    assert "FILE.py:NAME" in (tmp_path / "page.html").read_text()
    ilbo.Run(path)
    assert "name the model" in refusal(capsys, "evaluate", path / "policy.ilbo", "--trust")
    said = refusal(capsys, "plan", "--config", path / "config.toml", "--out", tmp_path / "b")
    assert "runs no code" in said
    assert not ran.exists()
    code, _, err = answer(capsys, "evaluate", path, "--trust", "--episodes", 8)
    assert code == 0
    assert ran.exists()
    assert err.count("\n") == 1
    assert "is not what it was when the run" in err
    assert str(path / "model.py") in err


def test_a_trusted_folder_is_evaluated_and_reported_without_a_name(own, capsys, tmp_path):
    path, _ = own
    code, out, err = answer(capsys, "evaluate", path, "--trust", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["mean"] == read_run(path).result["mean"]
    page = tmp_path / "page.html"
    assert answer(capsys, "report", path, "--trust", "--out", page)[0] == 0
    assert "What the policy does" in page.read_text()


def test_a_model_that_is_gone_can_be_taken_from_the_copy(moved, capsys):
    path, file = moved
    file.unlink()
    said = refusal(capsys, "evaluate", path, "--trust")
    assert "which is gone: name it where it lies now" in said
    copy = f"{path / 'model.py'}:make"
    assert copy in said
    code, out, err = answer(capsys, "evaluate", path, copy, "--arg", "pull=1.0", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["mean"] == read_run(path).result["mean"]


def test_other_arguments_than_those_of_the_run_are_told(own, capsys):
    path, model = own
    code, _, err = answer(capsys, "evaluate", path, model, "--arg", "pull=2.0", "--episodes", 8)
    assert code == 0
    assert "begun with pull=1.0, and this is with pull=2.0" in err


@pytest.mark.slow
def test_a_finished_run_is_trained_further_and_says_so(own, capsys):
    path, model = own
    code, _, err = answer(capsys, "plan", "--resume", path)
    assert code == 0
    assert "has finished; --episodes trains it further" in err
    further = ("plan", "--resume", path, model, "--arg", "pull=1.0", "--episodes")
    assert "has had 10 episodes" in refusal(capsys, *further, 10)
    code, out, err = answer(capsys, *further, 14)
    assert code == 0
    assert "from episode 10" in err
    assert f"next: ilbo evaluate {path} --trust" in out
    assert read_run(path).result["episodes"] == 14
    same = {"transitions": 14 * 4, "episodes": 14}
    assert same.items() <= read_run(path).result.items()


def test_in_python_the_problem_is_given_or_the_folder_trusted(own):
    path, model = own
    with pytest.raises(UserError, match="runs no code"):
        ilbo.resume(path, episodes=12)
    assert read_run(path).result is not None
    problem = ilbo.make(model, arguments={"pull": 1.0})
    first, second = ilbo.Run(path, problem).policy, ilbo.Run(path, trust=True).policy
    jax.tree.map(np.testing.assert_array_equal, first.network, second.network)
    assert ilbo.resume(path, trust=True).episode == 10


@pytest.mark.slow
def test_a_run_begins_with_an_earlier_policy_and_ends_by_its_rules(own, folder, capsys, tmp_path):
    path, _ = own
    out = tmp_path / "warm"
    rules = ("--warm-start", str(path), "--target", "-1e6")
    assert tiny_plan(folder / "drift.py", out, *rules) == 0
    assert "the policy earns what was asked for" in capsys.readouterr().err
    run = read_run(out)
    assert (run.result["episodes"], run.run_keys["target"]) == (2, -1e6)
    assert (out / "start.ilbo").exists()


def test_refusals_of_warm_starts_and_rules_come_before_anything_is_written(
    own, folder, capsys, tmp_path
):
    path, model = own
    plan = ("plan", model, "--arg", "pull=1", "--out", tmp_path / "a")
    assert "hidden layers 4" in refusal(capsys, *plan, "--warm-start", path)
    assert "no file" in refusal(capsys, *plan, "--warm-start", tmp_path / "nowhere")
    assert "patience must be" in refusal(capsys, *plan, "--patience", 0)
    said = refusal(capsys, "plan", "--resume", path, "--warm-start", path)
    assert "leave out --warm-start" in said
    assert "needs the problem" in refusal(capsys, "evaluate", path, "--arg", "pull=1")
    assert "leave out PROBLEM" in refusal(capsys, "plan", "--resume", built_in(tmp_path), model)
    assert not (tmp_path / "a").exists()


def built_in(tmp_path):
    from ilbo.runs.folder import RunFolder

    problem = ilbo.make("navigation-3")
    RunFolder.create(tmp_path / "built-in", problem, tiny_runs.CONFIG, (0,)).close()
    return tmp_path / "built-in"


def test_a_source_that_makes_no_sense_is_a_damaged_folder(own, capsys):
    path, _ = own
    meta = json.loads((path / "meta.json").read_text())
    for source in ([], {"reference": "a.py:b"}, {**meta["source"], "path": 3}):
        (path / "meta.json").write_text(json.dumps({**meta, "source": source}))
        assert "is damaged: its source" in refusal(capsys, "evaluate", path, "--trust")
    unread = {**meta["source"], "arguments": {"pull": "<object>"}}
    (path / "meta.json").write_text(json.dumps({**meta, "source": unread}))
    assert "cannot be read back" in refusal(capsys, "evaluate", path, "--trust")


def test_overwriting_removes_the_copy_of_the_model_and_no_file_of_the_users(own, capsys):
    path, model = own
    (path / "model.py").write_text("# mine now\n")
    from ilbo.runs.folder import RunFolder

    RunFolder.create(path, ilbo.make("hvac-3"), tiny_runs.CONFIG, (0,), overwrite=True).close()
    assert (path / "model.py").read_text() == "# mine now\n"
    problem = ilbo.make(model, arguments={"pull": 1.0})
    other = path.with_name("other")
    for made in (problem, ilbo.make("hvac-3")):
        RunFolder.create(other, made, tiny_runs.CONFIG, (0,), overwrite=True).close()
    assert not (other / "model.py").exists()
