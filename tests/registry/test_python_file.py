"""Problems in Python files: found by name, refused in a sentence, and run only when named."""

import os
import sys

import model_files
import pytest

import ilbo
from ilbo.errors import UserError
from ilbo.registry import identity
from ilbo.registry.python_file import arguments_of, is_reference


@pytest.fixture
def file(tmp_path):
    return model_files.write(tmp_path / "drift.py")


@pytest.fixture(autouse=True)
def same_path_afterwards():
    before = list(sys.path)
    yield
    sys.path[:] = before


def refusal(name, arguments=None):
    with pytest.raises(UserError) as raised:
        ilbo.make(name, None, arguments)
    said = str(raised.value)
    assert "\n" not in said
    return said


def test_a_problem_is_found_in_a_file_by_its_name(file):
    problem = ilbo.make(f"{file}:problem")
    assert problem.name == "drift"
    assert problem.origin.kind == "file"
    assert problem.origin.reference == f"{file}:problem"
    assert problem.origin.files == ((str(file), model_files.TEXT),)
    assert problem.is_as_built
    assert "digest" not in identity.describe(problem)


def test_a_function_is_called_with_the_arguments_given(file):
    problem = ilbo.make(f"{file}:make", None, {"pull": 2.0})
    assert problem.model.pull == 2.0
    assert problem.origin.arguments == (("pull", "2.0"),)


def test_a_file_is_found_from_where_the_user_is(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert ilbo.make("drift.py:problem").origin.reference == f"{file}:problem"


def test_a_problem_is_found_in_a_module_of_a_package(tmp_path, monkeypatch):
    package = tmp_path / "lake_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "numbers.py").write_text("PULL = 3.0\n")
    text = model_files.TEXT.replace("make(1.0)", "make(PULL)")
    model_files.write(package / "drift.py", "from .numbers import PULL\n" + text)
    monkeypatch.chdir(tmp_path)
    problem = ilbo.make("lake_models.drift:problem")
    assert problem.model.pull == 3.0
    assert problem.origin.files[0][0] == str(package / "drift.py")
    assert "There is no module 'lake_models.dirft'" in refusal("lake_models.dirft:problem")


def test_a_file_imports_what_lies_beside_it_and_prints_nothing_on_standard_output(file, capsys):
    (file.parent / "beside_drift.py").write_text("PULL = 4.0\n")
    model_files.write(
        file,
        "from beside_drift import PULL\nprint('hello')\n"
        + model_files.TEXT.replace("make(1.0)", "make(PULL)"),
    )
    assert ilbo.make(f"{file}:problem").model.pull == 4.0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "hello\n")


def test_a_problem_of_ilbo_that_a_file_holds_stays_one_of_ilbo(file):
    model_files.write(file, "import ilbo\nproblem = ilbo.make('navigation-3')\n")
    assert identity.describe(ilbo.make(f"{file}:problem"))["origin"] == "built-in"


def test_arguments_are_literals_or_texts():
    given = ["a=10", "b=0.5", "c=[1, 2]", "d=north", "e=", "f=a=b", "g='1'"]
    wanted = {"a": 10, "b": 0.5, "c": [1, 2], "d": "north", "e": "", "f": "a=b", "g": "1"}
    assert arguments_of(given) == wanted


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [(["capacity"], "NAME=VALUE"), (["=3"], "NAME=VALUE"), (["a=1", "a=2"], "given twice")],
)
def test_arguments_that_make_no_sense_are_refused(texts, wanted):
    with pytest.raises(UserError, match=wanted):
        arguments_of(texts)


def test_what_cannot_be_found_is_told_in_a_sentence(file, tmp_path):
    assert refusal(f"{tmp_path}/no.py:problem") == f"There is no file '{tmp_path}/no.py'."
    assert "is not a plain file" in refusal(f"{own_folder(tmp_path)}:problem")
    assert "did you mean 'problem'?" in refusal(f"{file}:problme")
    assert "it has: make, problem." in refusal(f"{file}:xyzxyz")
    assert "Say which problem" in refusal(str(file))
    assert "Say which problem" in refusal(f"{file}:")
    assert "no module 'nowhere_at_all'" in refusal("nowhere_at_all:problem")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in refusal(f"{tmp_path}/bytes.py:problem")


def own_folder(tmp_path):
    (tmp_path / "folder.py").mkdir()
    return tmp_path / "folder.py"


def test_what_is_no_problem_is_told_in_a_sentence(file):
    assert "is of type int; it must be an ilbo.Problem" in refusal(f"{file}:number")
    assert "is a class; it must be an ilbo.Problem" in refusal(f"{file}:Drift")
    model_files.write(file, model_files.TEXT + "\ndef wrong():\n    return 3\n")
    assert "returns an object of type int" in refusal(f"{file}:wrong")


def test_arguments_of_a_function_are_checked(file):
    assert "needs the argument 'pull': give it with --arg pull=VALUE" in refusal(f"{file}:make")
    said = refusal(f"{file}:make", {"pul": 1})
    assert "takes no argument 'pul'; did you mean 'pull'?" in said
    assert "leave out its arguments" in refusal(f"{file}:problem", {"pull": 1})
    assert "takes no arguments" in refusal("navigation-3", {"pull": 1})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import ilbo\n\nx = 1 / 0\n", ":3 fails: ZeroDivisionError: division by zero."),
        ("import ilbo\ndef f(:\n", ":2 fails: SyntaxError: invalid syntax."),
        ("import not_there_at_all\n", ":1 fails: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit('bye')\n", ":2 fails: SystemExit: bye."),
        ("raise ValueError\n", ":1 fails: ValueError."),
        ("raise BaseException('all')\n", ":1 fails: BaseException: all."),
        ("def deep():\n    raise ValueError('a\\nb')\n\ndeep()\n", ":2 fails: ValueError: a."),
        ("import ilbo\nilbo.make('navigation-4')\n", ":2: There is no problem 'navigation-4'"),
    ],
)
def test_an_error_in_the_file_is_a_sentence_with_file_and_line(file, text, wanted):
    model_files.write(file, text)
    assert f"{file}{wanted}" in refusal(f"{file}:problem")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    assert "is not a plain file" in refusal(f"{tmp_path}/pipe.py:problem")


def test_an_error_of_the_function_is_a_sentence_with_file_and_line(file):
    said = refusal(f"{file}:make", {"pull": 1.0, "horizon": 0})
    assert "horizon must be at least 1" in said
    line = 1 + model_files.TEXT[: model_files.TEXT.index("return ilbo.Problem(")].count("\n")
    assert said.startswith(f"{file}:{line}: Problem 'drift'")


def test_a_problem_altered_in_memory_is_no_longer_that_of_the_file(file):
    import equinox as eqx

    problem = ilbo.make(f"{file}:problem")
    changed = eqx.tree_at(lambda p: p.initial_state, problem, problem.initial_state + 1)
    assert problem.is_as_built
    assert not changed.is_as_built


def test_a_description_never_names_code_to_run(tmp_path):
    """A file of ours may say anything: what it calls built-in is looked up and nowhere else."""
    ran = tmp_path / "ran"
    evil = model_files.write(tmp_path / "evil.py", f"open({str(ran)!r}, 'w')\n" + model_files.TEXT)
    described = {"name": f"{evil}:problem", "states": ["s1"], "actions": ["a1"]}
    for origin in ("built-in", "python", "file"):
        with pytest.raises(UserError):
            identity.rebuild({**described, "origin": origin})
    assert not ran.exists()


def test_names_that_mean_a_file_or_a_module():
    assert all(map(is_reference, ["a.py:b", "a.py", "a.b:c", "../a.py:b"]))
    assert not any(map(is_reference, ["navigation-3", "rddl:HVAC/1", "a.rddl", "reservoir(9, 0)"]))
