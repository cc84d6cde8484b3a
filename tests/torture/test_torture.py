"""A short torture, and that it would notice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyRDDLGym")

from torture import inputs
from torture.__main__ import Log, in_processes

TESTS = Path(__file__).parents[1]


def torture(out, *arguments):
    """What `make torture` prints with these arguments."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "torture", "--out", out, *arguments],
        env={**os.environ, "PYTHONPATH": path, "TORTURE_CACHE": os.environ["XDG_CACHE_HOME"]},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_mutated_inputs_of_each_kind(tmp_path):
    table = torture(tmp_path / "log", "--no-faults", "--cases", "15", "--seed", "7", "--cores", "2")
    assert f"| all | {15 * len(inputs.COUNTS)} | 0 |" in table


@pytest.mark.slow
def test_kills_at_file_operations_and_at_random_moments(tmp_path):
    table = torture(tmp_path / "log", "--no-inputs", "--cases", "2", "--only", "navigation-3")
    assert "| all | 4 | 0 |" in table


@pytest.mark.slow
def test_faults_of_each_kind(tmp_path):
    assert " | 0 | " in torture(tmp_path / "log", "--no-inputs", "--cases", "3")


def fail(draw, folder):
    raise ValueError("wrong")


def crash(draw, folder):
    if draw.random() < 0.5:
        os.kill(os.getpid(), signal.SIGTERM)


def hang(draw, folder):
    time.sleep(1000)


@pytest.mark.parametrize(
    ("does", "said"), [(fail, "ValueError: wrong"), (crash, "died: -15"), (hang, "hangs: -9")]
)
def test_what_must_not_happen_is_noticed_and_the_rest_goes_on(monkeypatch, tmp_path, does, said):
    monkeypatch.setitem(inputs.TRIES, "policy files", does)
    if does is hang:
        monkeypatch.setattr(inputs, "HANGS", 0.5)
    found = list(inputs.try_all("policy files", 0, (4, 5), tmp_path))
    assert [number for number, _, _ in found] == [4, 5]
    assert [bool(failed) for _, failed, _ in found] == [True, does is not crash]
    assert all(said in failed for _, failed, _ in found if failed)


def test_the_log_goes_on_where_it_stopped(tmp_path):
    log = Log(tmp_path / "log", 3)
    log.add("policy files", 0, None, 0.5)
    log.add("policy files", 2, "it hangs", 1.0)
    again = Log(tmp_path / "log", 3)
    assert again.tried("policy files") == {0, 2}
    assert "| policy files | 2 | 1 | 2 |" in again.table()
    assert Log(tmp_path / "log", 4).tried("policy files") == set()
    assert len((tmp_path / "log").read_text().splitlines()) == 2
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["case"] == 0


@pytest.mark.parametrize("fails", [False, True])
def test_each_process_has_its_share_and_one_that_fails_is_told(tmp_path, fails, capfd):
    log = Log(tmp_path / "log", 0)

    def work(core):
        for number in range(10)[core::3]:
            log.add("kind", number, None, 0.0)
        if fails and core == 1:
            raise RuntimeError("no such thing")

    assert in_processes(work, 3) is not fails
    assert Log(tmp_path / "log", 0).tried("kind") == set(range(10))
    assert ("no such thing" in capfd.readouterr().err) is fails
