"""Nonsense on the command line and in files: a sentence and an exit code, never a traceback."""

import random
import shutil
from pathlib import Path

import pytest
from nonsense import alter_file, command_line, leave_out_work

from ilbo.cli.main import main


def fuzz(monkeypatch, tmp_path, capsys, cases, seed):
    monkeypatch.chdir(tmp_path)
    leave_out_work(monkeypatch.setattr)
    (tmp_path / "policy.ilbo").write_bytes(b"\x89ILBO\r\n\x1a" + b"\xff" * 40)
    draw = random.Random(seed)
    for _ in range(cases):
        arguments = command_line(draw)
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


def fuzz_folders(monkeypatch, tmp_path, capsys, cases, seed):
    """Commands on run folders of which one file was altered."""
    leave_out_work(monkeypatch.setattr)
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
