"""Run folders: what is on disk is whole, and going on gives the same bits."""

import dataclasses
import json
import multiprocessing
import re
import shutil
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.errors import UserError
from ilbo.planning.loop import Clock, Moment, Start, StopWhen
from ilbo.planning.loop import train as loop
from ilbo.report.page import render
from ilbo.runs import checkpoint
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import unused_folder
from ilbo.runs.recorder import Recorder
from ilbo.runs.saved import read_run
from ilbo.storage import arrays as arrayfile

SEEDS = (3, 4)


def start(path, problem=None, seeds=SEEDS, **options):
    problem = problem or tiny_runs.problem()
    folder = RunFolder.create(path, problem, tiny_runs.CONFIG, seeds, **options)
    return tiny_runs.planner(problem, seeds=seeds), folder


def train(planner, folder, stop=lambda: False):
    return loop(planner, [Recorder(folder), StopWhen(stop)])


class StopAfter:
    """Asks to stop once it has been asked a number of times."""

    def __init__(self, questions):
        self.left = questions

    def __call__(self):
        self.left -= 1
        return self.left < 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped, and its plan."""
    planner, folder = start(tmp_path_factory.mktemp("runs") / "whole")
    with folder:
        return folder.path, train(planner, folder)


def policy_files(path):
    return {p.relative_to(path): p.read_bytes() for p in sorted(path.glob("seed-*/*.ilbo"))}


def test_folder_tells_everything_about_the_run(whole):
    path, plan = whole
    run = read_run(path)
    assert run.config == tiny_runs.CONFIG.settled()
    assert run.seeds == SEEDS
    assert run.description["name"] == "drift"
    assert run.meta["packages"]["jax"] == jax.__version__
    assert run.result is None
    assert run.history == plan.history
    assert [r.episode for r in run.history[0]] == [2, 4, 6, 8, 10]
    lines = (path / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["seed"] for line in lines} == set(SEEDS)
    assert [p.name for p in sorted(path.glob("seed-3/*"))] == ["best.ilbo", "policy.ilbo"]


def test_saved_policies_are_those_of_the_plan(whole):
    path, plan = whole
    problem = tiny_runs.problem()
    run = read_run(path)
    for saved, kept in (
        (run.policies(problem), plan.policies),
        (run.policies(problem, best=True), plan.best_policies),
    ):
        for a, b in zip(saved, kept, strict=True):
            jax.tree.map(np.testing.assert_array_equal, a.network, b.network)


def test_plan_is_the_same_plan_as_without_a_folder(whole):
    _, recorded = whole
    plan = ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, seeds=SEEDS)
    for a, b in zip(plan.policies, recorded.policies, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a.network, b.network)
    assert plan.samples == recorded.samples


@pytest.mark.parametrize("questions", [0, 1, 3, 8])
def test_stopped_and_resumed_run_ends_with_the_same_bytes(whole, tmp_path, questions):
    reference, _ = whole
    planner, folder = start(tmp_path / "run")
    with folder:
        plan = train(planner, folder, stop=StopAfter(questions))
    assert plan.ending == "stopped"
    assert plan.episode < planner.episodes
    with RunFolder(tmp_path / "run") as folder:
        again = train(tiny_runs.planner(seeds=SEEDS), folder)
    assert (again.ending, again.episode) == ("finished", 10)
    assert policy_files(tmp_path / "run") == policy_files(reference)

    def timeless(path):
        rows = [dataclasses.replace(r, seconds=0.0) for h in read_run(path).history for r in h]
        return sorted(rows, key=lambda r: (r.seed, r.episode))

    assert timeless(tmp_path / "run") == timeless(reference)


def test_tests_after_the_last_checkpoint_are_not_counted_twice(tmp_path):
    planner, folder = start(tmp_path / "run")
    with folder:
        plan = train(planner, folder, stop=StopAfter(3))
        late = dataclasses.replace(plan.history[0][-1], episode=plan.episode + 2)
        folder.append([late])
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"seed": 3, "episode": ')  # as a crash leaves it
    with RunFolder(tmp_path / "run") as folder:
        train(planner, folder)
    counts = [[r.episode for r in history] for history in read_run(tmp_path / "run").history]
    assert counts == [[2, 4, 6, 8, 10]] * 2


def test_fault_keeps_the_last_good_policy_and_the_last_good_checkpoint(tmp_path):
    planner, folder = start(tmp_path / "run")
    broken = tiny_runs.problem(tiny_runs.Drift(broken_above=jnp.array(-jnp.inf)))
    with folder:
        good = train(planner, folder, stop=StopAfter(3))
        with pytest.warns(ilbo.PlanningWarning, match="reward is not finite"):
            plan = train(tiny_runs.planner(broken, seeds=SEEDS), folder)
    assert "reward is not finite at training step" in plan.fault
    assert plan.episode > good.episode  # most of the last steps were bad by then
    header, _ = arrayfile.read(tmp_path / "run" / "checkpoint.ilbo", "checkpoint")
    assert good.episode <= header["episode"] < plan.episode
    for policy in read_run(tmp_path / "run").policies(broken):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policy.network))


def test_folder_with_a_run_is_not_overwritten_unless_asked(whole, tmp_path):
    path, _ = whole
    with pytest.raises(UserError, match=r"unfinished run of drift.*--resume.*--overwrite"):
        start(path)
    _, folder = start(tmp_path / "run", seeds=(0,))
    folder.close()
    (tmp_path / "run" / "seed-7").mkdir()
    (tmp_path / "run" / "seed-7" / "mine.txt").write_text("kept")
    (tmp_path / "run" / "metrics.jsonl").write_text("old\n")
    _, folder = start(tmp_path / "run", seeds=(1,), overwrite=True)
    folder.close()
    assert read_run(tmp_path / "run").seeds == (1,)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert (tmp_path / "run" / "seed-7" / "mine.txt").read_text() == "kept"


def test_folder_with_other_files_is_refused_and_they_are_never_touched(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        start(tmp_path)
    start(tmp_path, overwrite=True)[1].close()
    assert (tmp_path / "letter.txt").read_text() == "mine"


def test_overwriting_removes_the_files_of_a_run_and_no_others(tmp_path):
    planner, folder = start(tmp_path / "run")
    with folder:
        train(planner, folder)
    path = tmp_path / "run"
    (path / "report.html").write_text(render([]))
    events = path / "tensorboard" / "seed-3"
    events.mkdir(parents=True)
    (events / "events.out.tfevents.1.host.2.0").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (path / "seed-9").symlink_to(elsewhere)
    mine = {
        path / "tensorboard" / "notes.txt",
        path / "tensorboard" / "other" / "events.out.tfevents.1.host.2.0",
        path / "tensorboard" / "seed-4" / "notes.txt",
        path / "seed-3" / "notes.txt",
        path / "seed-best" / "policy.ilbo",
        path / ".draft.tmp",
        elsewhere / "policy.ilbo",
    }
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    start(path, seeds=(0,), overwrite=True)[1].close()
    held = {file for file in tmp_path.rglob("*") if file.is_file()}
    written = {path / name for name in (".lock", "meta.json", "config.toml")}
    assert held - written == mine
    assert not events.exists()
    assert not (path / "seed-4").exists()


def test_overwriting_keeps_a_report_of_someone_else_and_what_a_link_leads_to(tmp_path):
    path, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    events = elsewhere / "seed-0" / "events.out.tfevents.1.host.2.0"
    events.parent.mkdir(parents=True)
    events.touch()
    start(path)[1].close()
    (path / "report.html").write_text("<!DOCTYPE html>\n<title>Written by ilbo's user</title>")
    (path / "tensorboard").symlink_to(elsewhere)
    start(path, overwrite=True)[1].close()
    assert (path / "report.html").exists()
    assert events.exists()


def hold(path, ready, done):
    with RunFolder(path):
        ready.set()
        done.wait(60)


def test_folder_in_use_by_another_process_is_refused_even_to_overwrite(tmp_path):
    start(tmp_path / "run")[1].close()
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path / "run", ready, done))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(UserError, match="in use by another run"):
            RunFolder(tmp_path / "run")
        with pytest.raises(UserError, match="in use by another run"):
            start(tmp_path / "run", overwrite=True)
    finally:
        done.set()
        other.join(60)
    RunFolder(tmp_path / "run").close()


def test_unused_folders_are_numbered(tmp_path):
    names = [unused_folder(tmp_path, "rddl:UAV/1", (5,)).name for _ in range(3)]
    assert names == ["rddl-UAV-1-5", "rddl-UAV-1-5-2", "rddl-UAV-1-5-3"]
    assert unused_folder(tmp_path, "hvac-3", (0, 1, 2)).name == "hvac-3-0to2"


def test_damaged_or_foreign_checkpoints_are_refused_in_one_line(whole, tmp_path):
    reference, _ = whole
    good = (reference / "checkpoint.ilbo").read_bytes()
    problem, config = tiny_runs.problem(), tiny_runs.CONFIG
    with RunFolder.create(tmp_path / "run", problem, config, SEEDS) as folder:
        checkpoint = folder.path / "checkpoint.ilbo"
        for data in (good[: len(good) // 2], good[:-9] + b"x" * 9, b"", b"junk" * 10):
            checkpoint.write_bytes(data)
            with pytest.raises(UserError, match="--overwrite") as raised:
                train(tiny_runs.planner(problem, config, SEEDS), folder)
            assert "\n" not in str(raised.value)
        checkpoint.write_bytes(good)
        changed = dataclasses.replace(config, policy_rate=0.5)
        with pytest.raises(UserError, match="other settings"):
            train(tiny_runs.planner(problem, changed, SEEDS), folder)
        header, arrays = arrayfile.read(checkpoint, "checkpoint")
        older = {name: header[name] for name in ("identity", "episode")}
        arrayfile.write(checkpoint, "checkpoint", older, arrays)
        with pytest.raises(UserError, match=r"of another version of ilbo.*--overwrite"):
            train(tiny_runs.planner(problem, config, SEEDS), folder)


def test_newer_or_damaged_folders_are_refused(whole, tmp_path):
    start(tmp_path / "run")[1].close()
    meta = tmp_path / "run" / "meta.json"
    described = json.loads(meta.read_text())
    meta.write_text(json.dumps({**described, "format": 99}))
    with pytest.raises(UserError, match="newer version"):
        read_run(tmp_path / "run")
    meta.write_text("{")
    with pytest.raises(UserError, match="damaged"):
        read_run(tmp_path / "run")
    with pytest.raises(UserError, match="no run in the folder"):
        read_run(tmp_path)


@pytest.mark.parametrize(("name", "value"), [("seeds", 0), ("seeds", 10**8), ("seed", -1)])
def test_numbers_of_seeds_in_a_run_folder_are_checked(whole, tmp_path, name, value):
    start(tmp_path / "run")[1].close()
    config = tmp_path / "run" / "config.toml"
    text = re.sub(rf"^{name} = .*$", f"{name} = {value}", config.read_text(), flags=re.MULTILINE)
    config.write_text(text)
    with pytest.raises(UserError, match="seed"):
        read_run(tmp_path / "run")


def test_damaged_line_of_the_metrics_is_told_and_one_cut_short_left_out(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    tests = [len(run) for run in read_run(tmp_path / "run").history]
    metrics.write_text("".join(lines)[:-5])
    assert [len(run) for run in read_run(tmp_path / "run").history] == [tests[0], tests[1] - 1]
    metrics.write_text("".join([lines[0], lines[1][:-5] + "\n", *lines[2:]]))
    with pytest.raises(UserError, match="line 2 is no record"):
        read_run(tmp_path / "run")


def test_a_checkpoint_holds_what_was_stored_and_not_the_room_for_more(tmp_path):
    config = dataclasses.replace(tiny_runs.CONFIG, critic_store=1_000_000)
    planner, path = tiny_runs.planner(config=config), tmp_path / "checkpoint.ilbo"
    (seed,) = planner.start()
    empty = seed.state.store
    store = eqx.tree_at(
        lambda s: (s.rows, s.count), empty, (empty.rows.at[:8].set(7.0), jnp.array(8))
    )
    seed = eqx.tree_at(lambda s: s.state.store, seed, store)
    clock = Clock(Start([seed]), time.perf_counter())
    checkpoint.save(path, Moment(planner, [seed], 2, [], [[]], clock))
    assert store.rows.nbytes > 3_000_000
    assert path.stat().st_size < 30_000
    (back,) = checkpoint.restore(path, planner).seeds
    np.testing.assert_array_equal(back.state.store.rows, store.rows)
    assert back.state.store.count == 8
