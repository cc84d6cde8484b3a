"""The command line: instant help, clean output, one sentence for every mistake."""

import json
import subprocess
import sys

import pytest

import ilbo
from ilbo.cli import main as cli


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    try:
        code = cli.main(arguments)
    except SystemExit as finished:  # what tyro does with arguments it cannot read
        code = finished.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, **options
    )


def test_help_of_all_and_of_each_command_without_loading_jax():
    script = (
        "import sys\n"
        "from ilbo.cli.main import COMMANDS, main\n"
        "for arguments in [[], *([name] for name in COMMANDS)]:\n"
        "    try: main([*arguments, '--help'])\n"
        "    except SystemExit as finished: assert finished.code == 0\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    )
    found = python("-c", script)
    assert found.returncode == 0, found.stderr
    for name in cli.COMMANDS:
        assert f"  {name} " in found.stdout
        assert f"usage: ilbo {name}" in found.stdout


def test_no_command_shows_help_and_fails(capsys):
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert "usage: ilbo COMMAND" in err


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"ilbo {ilbo.__version__}\n", "")


def test_runs_as_a_module():
    assert python("-m", "ilbo", "--version").stdout == f"ilbo {ilbo.__version__}\n"


def test_problems_as_a_table(capsys):
    code, out, err = run(capsys, "problems")
    assert (code, err) == (0, "")
    header, *rows = out.splitlines()
    assert header.split() == ["name", "state", "action", "horizon", "discount", "noise"]
    assert [row.split()[0] for row in rows] == ilbo.problems()
    assert "reservoir-20     20      20       40         1  Gamma × 20" in rows


def test_problems_as_json(capsys):
    code, out, _ = run(capsys, "problems", "--json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ilbo.problems()
    assert found["hvac-6"] == {
        "state_size": 6,
        "action_size": 6,
        "horizon": 40,
        "discount": 1.0,
        "noise": "Normal × 12",
    }


def test_simulate_prints_one_json_object_and_nothing_else(capsys):
    arguments = ["navigation-3", "--policy", "heuristic", "--episodes", "16", "--seed", "3"]
    code, out, err = run(capsys, "simulate", *arguments, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    problem = ilbo.make("navigation-3")
    expected = ilbo.evaluate(problem, problem.model.heuristic, 3, 16)
    assert found["problem"] == "navigation-3"
    assert (found["policy"], found["episodes"], found["seed"]) == ("heuristic", 16, 3)
    assert found["mean"] == pytest.approx(expected.mean)
    assert found["std"] == pytest.approx(expected.std)
    assert found["ci95"] == pytest.approx(list(expected.ci95))
    assert found["discounted_mean"] == pytest.approx(expected.discounted_mean)


def test_simulate_from_a_start_of_the_users_own(capsys):
    arguments = ["navigation-3", "--episodes", "4", "--start", "8", "-9.5"]
    code, out, _ = run(capsys, "simulate", *arguments)
    assert code == 0
    assert out.startswith("navigation-3, random policy, 4 episodes\nreturn ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulat"], "There is no command 'simulat'; did you mean 'simulate'?"),
        (["zzz"], "There is no command 'zzz'; see `ilbo --help`."),
        (["simulate", "hvac6"], "There is no problem 'hvac6'; did you mean 'hvac-6'?"),
        (["simulate", "reservoir(0, 1)"], "A reservoir chain has 1 to 1,000 reservoirs, not 0."),
        (["simulate", "hvac-3", "--episodes", "0"], "must be at least 1, got 0."),
        (["simulate", "hvac-3", "--episodes", "-2"], "must be at least 1, got -2."),
        (["simulate", "hvac-3", "--seed", "-2"], "A seed is a whole number"),
        (["simulate", "hvac-3", "--start", "1"], "has 3 state components: room 1, room 2, room 3."),
        (["simulate", "reservoir-10", "--start", *["-1"] * 10], "level 1 = -1, outside the domain"),
        (["simulate", "navigation-3", "--start", "nan", "1"], "x = nan, which is not a finite"),
    ],
)
def test_a_mistake_is_told_in_one_sentence_with_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("ilbo: ")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate"],
        ["simulate", "hvac-3", "--policy", "best"],
        ["simulate", "hvac-3", "--sed", "1"],
    ],
)
def test_arguments_that_cannot_be_read_give_exit_code_2(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


@pytest.fixture
def command(monkeypatch):
    """Replaces `ilbo problems` by what the test does."""

    def install(action):
        from ilbo.cli.problems import Command

        monkeypatch.setattr(Command, "run", lambda self: action())

    return install


def test_an_interrupt_is_quiet(capsys, command):
    def action():
        raise KeyboardInterrupt

    command(action)
    assert run(capsys, "problems") == (130, "", "ilbo: interrupted\n")


def test_running_out_of_memory_is_told(capsys, command):
    def action():
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 80000000000 bytes.")

    command(action)
    code, _, err = run(capsys, "problems")
    assert (code, err.count("\n")) == (2, 1)
    assert "not enough memory" in err


def test_a_bug_is_not_hidden(capsys, command):
    def action():
        raise RuntimeError("a bug")

    command(action)
    with pytest.raises(RuntimeError, match="a bug"):
        run(capsys, "problems")


def test_a_reader_that_leaves_is_no_error():
    script = "import sys; from ilbo.cli.main import main; sys.exit(main(['--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_commands(capsys, shell):
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0
    for name in cli.COMMANDS:
        assert name in out
    assert "--episodes" in out
