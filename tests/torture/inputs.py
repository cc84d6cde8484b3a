"""Mutated inputs: read, or refused in one sentence; never a traceback, a crash or a hang."""

import contextlib
import io
import json
import os
import random
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
from mutants import SOUND, mutate
from nonsense import (
    alter_file,
    command_line,
    header_and_payload,
    injure,
    injure_header,
    leave_out_work,
    sign,
)

from torture.children import HANGS

FOLDERS = Path(__file__).parents[1] / "support" / "files_of_0_1"
COUNTS = {
    "command lines": 25_000,
    "settings (TOML)": 20_000,
    "run folders (JSON)": 15_000,
    "RDDL texts": 3_000,
    "policy files": 22_000,
    "StableHLO files": 15_000,
}


class Wrong(Exception):
    """What a case did that it must not."""


def command(arguments, several_lines=False):
    """Exit code, output and remarks of a command in this process; `Wrong` unless it is sound."""
    from ilbo.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as finished:
            code = finished.code
    said = err.getvalue()
    for good, what in (
        (code in (0, 1, 2), f"exit code {code}"),
        ("Traceback" not in said + out.getvalue(), "a traceback"),
        ("\x1b" not in said + out.getvalue(), "an escape sequence"),
        (code == 0 or said.strip(), "it says nothing"),
        (several_lines or code == 0 or said.count("\n") == 1, "more than one line"),
    ):
        if not good:
            raise Wrong(f"{what}: {arguments} {said[-400:]}")
    return code


def try_command_line(draw, folder):
    command(command_line(draw), several_lines=True)


def try_settings(draw, folder):
    path = folder / "config.toml"
    shutil.copyfile(FOLDERS / draw.choice(["finished", "two-seeds"]) / "config.toml", path)
    for _ in range(draw.randrange(1, 4)):
        with contextlib.suppress(ValueError, IndexError):  # of a file that was cut to nothing
            alter_file(draw, path)
    if draw.random() < 0.2:
        path.write_bytes(injure(path.read_bytes() or b" ", draw))
    out = folder / "out"
    command(["plan", "--config", str(path), "--out", str(out)])
    shutil.rmtree(out, ignore_errors=True)


def try_run_folder(draw, folder):
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(FOLDERS / draw.choice(["finished", "two-seeds"]), run)
    path = run / draw.choice(["result.json", "meta.json", "metrics.jsonl", "config.toml"])
    alter_file(draw, path)
    altered, few = path.read_bytes(), ["--episodes", "2"]
    commands = [["plan", "--resume", str(run)], ["evaluate", str(run), *few]]
    commands += [["compare", "midpoint", str(run), *few], ["report", str(run), *few]]
    command(draw.choices(commands, (60, 10, 10, 1))[0])
    if path.read_bytes() != altered:
        raise Wrong(f"{path.name} was changed")


def _refuses(load):
    """What it loads, or None where that is refused in one sentence."""
    from ilbo.errors import UserError

    try:
        return load()
    except UserError as error:
        if "\n" in str(error):
            raise Wrong(f"several lines: {error}") from None
        return None


def try_rddl(draw, folder):
    import ilbo

    path = folder / "p.rddl"
    path.write_text(mutate(SOUND, np.random.default_rng(draw.getrandbits(64))))
    problem = _refuses(lambda: ilbo.make(path))
    if problem is not None and not problem.horizon >= 1:
        raise Wrong("a problem without a horizon")


def try_policy(draw, folder):
    import jax

    from ilbo.runs.loading import load_policy

    good, path = FOLDERS / "finished" / "policy.ilbo", folder / "policy.ilbo"
    altered = draw.random() < 0.3
    if altered:  # a sender who wants it to look sound
        header, payload = header_and_payload(good)
        key = draw.choice(sorted(header))
        sign(path, {**header, key: injure_header(header[key], draw)}, payload)
    else:
        path.write_bytes(injure(good.read_bytes(), draw))
    found = _refuses(lambda: load_policy(path))
    if found is None or altered:
        return
    both = [jax.tree.leaves(policy) for policy in (found, load_policy(good))]
    if not all(np.array_equal(a, b) for a, b in zip(*both, strict=True)):
        raise Wrong("another policy was loaded from damaged bytes")


def try_stablehlo(draw, folder):
    from ilbo.runs.loading import load_policy

    good, path = folder.parent / "policy.stablehlo", folder / "policy.stablehlo"
    path.write_bytes(injure(good.read_bytes(), draw))
    policy = _refuses(lambda: load_policy(path))
    if policy is not None and draw.random() < 0.1:
        state = np.ones(policy.state_size, np.float32)
        _refuses(lambda: policy(state))


TRIES = {
    "command lines": try_command_line,
    "settings (TOML)": try_settings,
    "run folders (JSON)": try_run_folder,
    "RDDL texts": try_rddl,
    "policy files": try_policy,
    "StableHLO files": try_stablehlo,
}


def draw_of(seed, kind, number):
    """The random numbers of one case, the same in whatever order cases are tried."""
    return random.Random(f"{seed} {kind} {number}")


def try_all(kind, seed, numbers, workplace):
    """Yields number, failure or None, and seconds of each case; crashes and hangs are failures."""
    waiting = list(numbers)
    while waiting:
        block = waiting[:BLOCK]
        done = 0
        for failed, seconds in _results(kind, seed, block, workplace):
            yield block[done], failed, seconds
            done += 1
        waiting = waiting[done:]


BLOCK = 2_000
"""Cases of a worker, whose memory the next one does not inherit."""


def _results(kind, seed, block, workplace):
    """Failure or None, and seconds, of each case in turn, up to one that the worker dies of."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _work(kind, seed, block, workplace, writer)
    os.close(writer)
    done, text, why = 0, b"", None
    while not why and done < len(block):
        if not select.select([reader], [], [], HANGS)[0]:
            why = "it hangs"
        elif data := os.read(reader, 1 << 16):
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                done += 1
                yield json.loads(line)
        else:
            why = "the process died"
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if why:
        yield f"{why}: {os.waitstatus_to_exitcode(status)}", 0.0


def _work(kind, seed, block, workplace, writer):
    """Tries the cases and writes a line for each; never returns."""
    try:
        leave_out_work(setattr)
        folder = workplace / f"inputs-{os.getpid()}"
        folder.mkdir()
        os.chdir(folder)
        (folder / "policy.ilbo").write_bytes(b"\x89ILBO\r\n\x1a" + b"\xff" * 40)
        for number in block:
            began, failed = time.monotonic(), None
            try:
                TRIES[kind](draw_of(seed, kind, number), folder)
            except BaseException as error:
                failed = f"{type(error).__name__}: {error}"[:1000]
            line = json.dumps([failed, round(time.monotonic() - began, 3)])
            os.write(writer, f"{line}\n".encode())
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)
