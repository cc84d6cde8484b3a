"""Killed, or out of disk, at any file operation: a run goes on as if it had never stopped."""

import contextlib

import pytest
import tiny_runs
from faulty_disk import Disk, Killed

from ilbo.errors import UserError
from ilbo.planning.config import ENDLESS
from ilbo.planning.loop import train
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import is_run
from ilbo.runs.recorder import Recorder
from ilbo.runs.saved import read_run
from ilbo.storage.files import WriteError

SEEDS = (3, 4)


def policies(path):
    return {p.relative_to(path): p.read_bytes() for p in sorted(path.glob("seed-*/*.ilbo"))}


def go_on(path):
    with RunFolder(path) as folder:
        return train(tiny_runs.planner(seeds=SEEDS, episodes=4), [Recorder(folder)])


def start(path):
    RunFolder.create(path, tiny_runs.problem(), tiny_runs.CONFIG, SEEDS).close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("kills") / "whole"
    start(path)
    go_on(path)
    return policies(path)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("full", "step"),
    [(False, 13), pytest.param(False, 1, marks=SLOW), pytest.param(True, 1, marks=SLOW)],
    ids=["killed at every thirteenth", "killed", "full"],
)
def test_every_operation_may_be_the_last(reference, tmp_path, full, step):
    tried = 0
    while True:
        path = tmp_path / str(tried)
        start(path)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch.setattr, tried, full)
            try:
                go_on(path)
                ended = True
            except (Killed, WriteError):
                ended = False
        if ended:
            assert disk.left >= 0  # nothing failed: all operations have been the last
            break
        plan = go_on(path)
        assert (plan.ending, plan.episode) == ("finished", 4), tried
        assert policies(path) == reference, tried
        assert not list(path.rglob("*.tmp")), tried
        tried += step
    assert tried > (10 if full else 20)


def test_policies_are_those_of_the_checkpoint_after_a_kill_between_the_two(reference, tmp_path):
    """The segment is over, its policies are old or missing: going on writes them."""
    path = tmp_path / "run"
    start(path)
    go_on(path)
    (path / "seed-3" / "policy.ilbo").unlink()
    (path / "seed-4" / "best.ilbo").write_bytes(b"old")
    go_on(path)
    assert policies(path) == reference


def test_a_run_by_the_clock_that_was_killed_at_its_end_trains_no_further(tmp_path):
    """Its time is over by the clock that had run, not by the one that goes on."""
    start(tmp_path)

    def go_on():
        with RunFolder(tmp_path) as folder:
            planner = tiny_runs.planner(seeds=SEEDS, episodes=ENDLESS)
            return train(planner, [Recorder(folder)], seconds=3600.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ilbo.planning.loop._is_over", lambda clock, seconds: True)
        first = go_on()
    kept = policies(tmp_path)
    again = go_on()
    assert (again.ending, again.episode) == ("finished", first.episode)
    assert policies(tmp_path) == kept
    assert len(again.history[0]) == 1


def test_a_folder_killed_before_its_settings_were_written_is_as_good_as_empty(tmp_path):
    passing = 0
    while True:
        path = tmp_path / str(passing)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch.setattr, passing)
            with contextlib.suppress(Killed):
                start(path)
        if is_run(path):
            break
        start(path)
        assert read_run(path).seeds == SEEDS
        assert {entry.name for entry in path.iterdir()} == {".lock", "meta.json", "config.toml"}
        passing += 1
    assert passing > 5


def test_a_description_that_is_not_of_a_run_makes_a_folder_taken(tmp_path):
    (tmp_path / "meta.json").write_text('{"title": "mine"}')
    with pytest.raises(UserError, match="not empty"):
        start(tmp_path)
