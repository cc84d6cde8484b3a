"""Nonsense on the command line: a sentence and an exit code, never a traceback."""

import random

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
