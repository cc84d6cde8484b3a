"""What is printed: any text, on any output, and nothing that acts on a terminal."""

import os
import subprocess
import sys

import pytest
from tiny_rddl import write

from ilbo.api.progress import TrainingProgress
from ilbo.cli.main import main
from ilbo.cli.output import note, print_table, printable

SIMULATE = ["simulate", "navigation-3", "--episodes", "2"]


def ilbo(*arguments, closed=(), stdout=subprocess.PIPE, **environment):
    """Exit code, standard output and standard error of the command in a process of its own."""

    def close():
        for number in closed:
            os.close(number)

    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"ilbo", *map(os.fsencode, arguments)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=close,
        timeout=100,
    )
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def test_ascii_terminal_gets_what_it_can_show():
    code, out, err = ilbo(*SIMULATE, PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "")
    assert " ? " in out


def test_full_output_is_told_in_a_sentence():
    with open("/dev/full", "w") as full:
        code, _, err = ilbo(*SIMULATE, stdout=full)
    assert (code, err) == (2, "ilbo: Cannot write the output: no space left on device.\n")


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_closed_outputs_are_no_error(closed):
    assert ilbo(*SIMULATE, closed=closed) == (0, "", "")


def test_missing_platform_is_told_in_a_sentence():
    code, out, err = ilbo(*SIMULATE, JAX_PLATFORMS="nowhere")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "JAX_PLATFORMS='nowhere'" in err


def test_path_that_is_no_text_is_told(tmp_path, capsys):
    folder = tmp_path / os.fsdecode(b"b\xe4d")
    folder.mkdir()
    path = write(folder)
    assert main(["plan", path, "--out", str(tmp_path / "run")]) == 2
    assert main(["evaluate", str(folder / "none.ilbo")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 2
    err.encode()


@pytest.mark.parametrize("terminal", [False, True])
def test_names_in_tables_are_shown_as_they_are(capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    print_table(["policy"], [["a[/b]"], ["[bold]x"], ["y\x1b[2J"]])
    out = capsys.readouterr().out
    for name in ("a[/b]", "[bold]x", r"y\x1b[2J"):
        assert name in out
    assert "\x1b[2J" not in out


def test_title_of_the_bar_is_shown_as_it_is(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "160")
    with TrainingProgress("a[/b] \x1b]0;x", 4, seeds=1):
        pass
    assert r"a[/b] \x1b]0;x" in capsys.readouterr().err


def test_remarks_write_escape_sequences_out(capsys):
    note("a\x1b[2J\r\u202eb\nc ± − ³")
    assert capsys.readouterr().err == "a\\x1b[2J\\r\\u202eb\nc ± − ³\n"
    assert printable("\udce4") == r"\udce4"


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "hvac-3", "--episodes", str(10**18)],
        ["simulate", f"reservoir({'9' * 5000}, 0)"],
        ["simulate", f"reservoir(3, {'9' * 5000})"],
        ["plan", "hvac-3", "--layers", str(10**9)],
        ["plan", "hvac-3", "--episodes", str(10**18)],
        ["reproduce", "grid", "--seeds", str(10**18)],
    ],
)
def test_huge_numbers_are_refused(capsys, arguments):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("ilbo: ")
    assert err.count("\n") == 1
