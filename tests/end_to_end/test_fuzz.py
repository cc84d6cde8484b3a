"""Nonsense on the command line and in files: a sentence and an exit code, never a traceback."""

import json
import random
import shutil
from pathlib import Path

import pytest

from ilbo.cli.main import COMMANDS, main
from ilbo.runs.settings import FIELDS

WORDS = [
    "navigation-3", "hvac-3", "reservoir(3, 0)", "reservoir(0, 0)", "nothing", "rddl:nothing/1",
    "no.rddl", "", " ", "-", "--", "-1", "0", "3", "1e3", "nan", "inf", "x" * 300, "ü\u2028",
    "10000000000000000000000000000000", "../..", "/proc/self/mem", "/dev/null", "random",
    "heuristic", "pathwise", "score", "None", "True", "{", "[1]", "'", "policy.ilbo", ".",
]  # fmt: skip
FLAGS = [
    "--json", "--episodes", "--seed", "--seeds", "--start", "--config", "--resume", "--policy",
    "--overwrite", "--best", "--problem", "--instance", "--onnx", "--preset", "--help", "--nothing",
]  # fmt: skip
HEAVY = {"report", "reproduce", "inspect", "completion"}
"""Commands that others test."""


def line(draw):
    names = sorted(set(COMMANDS) - HEAVY)
    name = draw.choice(names) if draw.random() < 0.95 else draw.choice(WORDS)
    flags = FLAGS + [f"--{flag.replace('_', '-')}" for flag in FIELDS] * (name == "plan")
    rest = [draw.choice(WORDS if draw.random() < 0.6 else flags) for _ in range(draw.randrange(7))]
    return [name, *rest]


def fuzz(monkeypatch, tmp_path, capsys, cases, seed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ilbo.cli.plan.Command._train", lambda *_: 0)
    (tmp_path / "policy.ilbo").write_bytes(b"\x89ILBO\r\n\x1a" + b"\xff" * 40)
    draw = random.Random(seed)
    for _ in range(cases):
        arguments = line(draw)
        try:
            code = main(arguments)
        except SystemExit as finished:
            code = finished.code
        said = capsys.readouterr()
        assert code in (0, 2), arguments
        assert "Traceback" not in said.out + said.err, arguments
        assert code == 0 or said.err, arguments


def test_nonsense_arguments_are_refused(monkeypatch, tmp_path, capsys):
    fuzz(monkeypatch, tmp_path, capsys, 60, seed=0)


@pytest.mark.slow
def test_thousands_of_nonsense_arguments_are_refused(monkeypatch, tmp_path, capsys):
    fuzz(monkeypatch, tmp_path, capsys, 3000, seed=1)


FOLDERS = Path(__file__).parents[1] / "support" / "files_of_0_1"
VALUES = [
    None, True, 0, -1, 3, 10**18, 10**400, 0.5, 1e300, float("nan"), "", "x", "$\\badcmd$", "a[/b]",
    "\x1b[2J", "\udce4", [], {}, [[]], [None, "x"], {"a": {}}, "rddl", "built-in", "python",
]  # fmt: skip
TOML = [
    "0", "-1", "100000000", "9" * 5000, "1e999", "nan", "true", "[]", "[0]", "[1.5]", '"x"', "{}",
    "[" * 3000, "1979-05-27", '"\\u001b[2J"', "[9999999999]", "=", "",
]  # fmt: skip


def alter(draw, value):
    """The value with one place of it, however deep, altered, removed or added to."""
    inside = isinstance(value, dict | list) and value and draw.random() < 0.85
    if not inside:
        return draw.choice(VALUES)
    at = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
    value = value.copy()
    if draw.random() < 0.15:
        del value[at]
    else:
        value[at] = alter(draw, value[at])
    return value


def alter_file(draw, path):
    text = path.read_text()
    if path.suffix == ".json":
        text = json.dumps(alter(draw, json.loads(text)))
    else:
        lines = text.splitlines()
        at = draw.choice([i for i, line in enumerate(lines) if line and line[0] != "#"])
        if path.suffix == ".toml":
            lines[at] = f"{lines[at].split(' = ')[0]} = {draw.choice(TOML)}"
        else:
            lines[at] = json.dumps(alter(draw, json.loads(lines[at])))
        text = "\n".join(lines) + "\n"
    if draw.random() < 0.05:
        text = text[: draw.randrange(len(text))]
    path.write_text(text)


def fuzz_folders(monkeypatch, tmp_path, capsys, cases, seed):
    """Commands on run folders of which one file was altered."""
    monkeypatch.setattr("ilbo.cli.plan.Command._train", lambda *_: 0)
    draw, run = random.Random(seed), tmp_path / "run"
    few = ["--episodes", "2"]
    commands = [["plan", "--resume", str(run)], ["evaluate", str(run), *few]]
    commands += [["compare", "midpoint", str(run), *few], ["report", str(run), *few]]
    for _ in range(cases):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(FOLDERS / draw.choice(["finished", "two-seeds"]), run)
        name = draw.choice(["result.json", "meta.json", "metrics.jsonl", "config.toml"])
        alter_file(draw, run / name)
        altered = (run / name).read_bytes()
        arguments = draw.choices(commands, (8, 3, 3, 1))[0]
        code = main(arguments)
        said = capsys.readouterr()
        where = (arguments, name, altered[:2000])
        assert code in (0, 1, 2), where
        assert "\x1b" not in said.out + said.err, where
        assert code == 0 or said.err.startswith("ilbo: "), where
        assert code == 0 or said.err.count("\n") == 1, where
        assert (run / name).read_bytes() == altered, where


def test_altered_run_folders_are_read_or_refused(monkeypatch, tmp_path, capsys):
    fuzz_folders(monkeypatch, tmp_path, capsys, 150, seed=0)


@pytest.mark.slow
def test_thousands_of_altered_run_folders_are_read_or_refused(monkeypatch, tmp_path, capsys):
    fuzz_folders(monkeypatch, tmp_path, capsys, 3000, seed=1)
