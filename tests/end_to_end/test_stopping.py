"""Real runs, ended at any moment and by any means, go on to the same end."""

import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from command import PLAN, kill, wait_for_lines

from ilbo.runs.layout import is_run
from ilbo.runs.saved import read_run


def assert_same_end(path, reference):
    for name in ("policy.ilbo", "best.ilbo"):
        assert (path / name).read_bytes() == (reference / name).read_bytes()
    result, wanted = read_run(path).result, read_run(reference).result
    assert (result["mean"], result["best_mean"]) == (wanted["mean"], wanted["best_mean"])
    assert not list(path.glob(".*.tmp"))


def kill_and_resume(command, path, reference, draw):
    """Kills a run at a random moment of its training, then lets it end."""
    process = command.start(*PLAN, "--out", path)
    wait_for_lines(process, path / "metrics.jsonl", draw.randrange(0, 40))
    time.sleep(draw.uniform(0, 0.03))
    kill(process)
    assert is_run(path)
    if (path / "policy.ilbo").exists():
        assert read_run(path).policies(read_run(path).problem())
    code, _, err = command.run("plan", "--resume", path)
    assert code == 0, err
    assert_same_end(path, reference)


def test_killed_run_resumes_to_the_same_policy(command, reference, tmp_path):
    kill_and_resume(command, tmp_path / "run", reference, random.Random(0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_run_killed_at_a_random_moment_resumes_to_the_same_policy(
    command, reference, tmp_path, seed
):
    kill_and_resume(command, tmp_path / "run", reference, random.Random(seed))


@pytest.mark.slow
def test_run_killed_again_and_again_resumes_to_the_same_policy(command, reference, tmp_path):
    path, draw = tmp_path / "run", random.Random(99)
    arguments = [*PLAN, "--out", path]
    for _ in range(5):
        process = command.start(*arguments)
        lines = len((path / "metrics.jsonl").read_bytes().splitlines()) if path.exists() else 0
        wait_for_lines(process, path / "metrics.jsonl", lines + draw.randrange(1, 8))
        kill(process)
        arguments = ["plan", "--resume", path]
    assert command.run("plan", "--resume", path)[0] == 0
    assert_same_end(path, reference)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_interrupted_run_saves_says_how_to_resume_and_does(command, reference, tmp_path, number):
    path = tmp_path / "run"
    process = command.start(*PLAN, "--out", path)
    assert wait_for_lines(process, path / "metrics.jsonl", 3)
    process.send_signal(number)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 128 + number
    assert f"go on with `ilbo plan --resume {path}`" in err
    assert "Traceback" not in err
    assert command.run("plan", "--resume", path)[0] == 0
    assert_same_end(path, reference)


ENTER = """
import sys
import ilbo.cli.main
print(flush=True)
sys.exit(ilbo.cli.main.main())
"""
"""What the `ilbo` command does, and a line once it is there to be interrupted."""
ENDLESS = """
import jax
from ilbo.cli.interruption import Interruption
endless = jax.jit(lambda: jax.lax.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 7, 0))
program = endless.lower().compile()
with Interruption():
    print(flush=True)
    jax.block_until_ready(program())
"""
"""A segment that never ends, in the main thread."""


def start_python(command, script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "delay", [0.2, 1.0, *(pytest.param(d, marks=pytest.mark.slow) for d in (0.05, 0.5, 2.0))]
)
def test_interrupt_while_the_command_gets_ready_is_quiet(command, tmp_path, delay):
    arguments = [*PLAN[:-1], 100_000, "--depth", 3, "--out", tmp_path / "run"]
    process = start_python(command, ENTER, *arguments)
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "ilbo: interrupted\n" in err or "go on with" in err


def test_second_interrupt_ends_whatever_runs(command):
    process = start_python(command, ENDLESS)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert "once more stops at once" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "ilbo: interrupted\n")


def test_run_interrupted_twice_resumes_to_the_same_policy(command, reference, tmp_path):
    path = tmp_path / "run"
    process = command.start(*PLAN, "--out", path)
    assert wait_for_lines(process, path / "metrics.jsonl", 2)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert command.run("plan", "--resume", path)[0] == 0
    assert_same_end(path, reference)


def test_full_disk_stops_the_run_in_a_sentence_and_nothing_is_lost(command, reference, tmp_path):
    path = tmp_path / "run"
    checkpoint = (reference / "checkpoint.ilbo").stat().st_size

    def limit():  # the checkpoint grows with the store until it no longer fits
        resource.setrlimit(resource.RLIMIT_FSIZE, (checkpoint * 3 // 4,) * 2)

    code, out, err = command.run(*PLAN, "--out", path, preexec_fn=limit)
    assert (code, out) == (1, "")
    last = err.strip().splitlines()[-1]
    assert "Cannot write" in last
    assert f"ilbo plan --resume {path}" in last
    assert "Traceback" not in err
    assert command.run("plan", "--resume", path)[0] == 0
    assert_same_end(path, reference)


def test_progress_is_plain_lines_without_a_terminal(undisturbed):
    _, out, err = undisturbed
    assert out.count("\n") == 1
    lines = [line for line in err.splitlines() if line.startswith("episode ")]
    assert len(lines) == 40
    assert "episodes/s" in lines[-1]
    assert "\x1b" not in err
