"""The battery's page: every command as printed, and the same in Python alone."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command, wait_for_lines
from test_docs_commands import blocks

from ilbo.runs.saved import read_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "battery.md"
LINES = [line.removeprefix("$ ") for line in "".join(blocks(PAGE, "console")).splitlines()]


@pytest.fixture
def place(tmp_path):
    """A folder with the examples, as in a fresh checkout."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def test_the_examples_are_short():
    for name in ("battery.py", "battery_in_python.py", "call_policy.py"):
        assert len((ROOT / "examples" / name).read_text().splitlines()) <= 80


@pytest.mark.slow
def test_every_command_of_the_page_does_what_it_says(place, tmp_path_factory):
    command = Command(tmp_path_factory.mktemp("cache"))
    run = place / "runs" / "battery"
    printed = {}
    for line in LINES:
        program, *words = shlex.split(line)
        if line == "ilbo plan examples/battery.py:problem --episodes 200 --out runs/battery":
            process = command.start(*words, cwd=place)
            assert wait_for_lines(process, run / "metrics.jsonl", 2)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=100)
            assert process.returncode == 130, err
            assert "go on with `ilbo plan --resume runs/battery --trust`" in err
            assert read_run(run).result is None
        elif program == "ilbo":
            code, printed[line], err = command.run(*words, cwd=place)
            assert code == 0, err
        else:
            assert program == "python"
            done = subprocess.run(
                [sys.executable, *words], cwd=place, capture_output=True, text=True, check=True
            )
            printed[line] = done.stdout
        if line == "ilbo plan --resume runs/battery examples/battery.py:problem":
            assert read_run(run).result["episodes"] == 200
    assert 200 < read_run(run).result["episodes"] <= 400
    compared = printed["ilbo compare runs/battery heuristic --trust"]
    assert "runs/battery is better than heuristic by" in compared
    assert "What the policy does" in (run / "report.html").read_text()
    action = float(printed["python examples/call_policy.py shipped/policy.onnx 5 0 18"])
    assert action == pytest.approx(4.0, abs=0.2)
    assert (place / "runs" / "larger" / "start.ilbo").exists()


@pytest.mark.slow
def test_the_same_in_python_alone(place, tmp_path_factory):
    done = subprocess.run(
        [sys.executable, "examples/battery_in_python.py"],
        cwd=place,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "progress after 100 episodes" in said
    assert [line for line in said if line.startswith("better than the rule by ")]
    assert float(said[-1]) == pytest.approx(4.0, abs=0.2)
    assert (place / "runs" / "in-python" / "report.html").exists()
