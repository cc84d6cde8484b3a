"""The wheel and the sdist: what is in them, and that the wheel works where nothing else is."""

import email
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = (
    "ilbo/py.typed",
    "ilbo/builtin/instances.json",
    "ilbo/report/template.html",
    "ilbo/rddl/files/hvac.rddl",
    "ilbo/rddl/files/hvac-3.rddl",
    "ilbo/tune/space.toml",
    "ilbo/watch/page/index.html",
    "ilbo/watch/page/watch.js",
)
PLAN = ["plan", "navigation-3", "--episodes", "25"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with what `make dist` builds."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(dist):
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        told = email.message_from_bytes(wheel.read(metadata))
    assert set(DATA) <= set(names)
    assert {name.split("/")[0] for name in names} == {"ilbo", metadata.split("/")[0]}
    assert not any("test" in name or name.endswith((".png", ".pyc")) for name in names)
    assert path.stat().st_size < 1_000_000
    assert told["Name"] == "ilbo"
    assert told["License-Expression"] == "MIT"
    assert "iterative lower bound" in told.get_payload()


def test_the_sdist_holds_the_source_alone(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {"/".join(name.split("/")[1:]) for name in archive.getnames()}
    assert {f"src/{name}" for name in DATA} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff"} <= names
    assert not any(name.startswith(("tests", "docs", "benchmarks")) for name in names)


class Machine:
    """An environment that holds the wheel, with some extras, and nothing of this one."""

    def __init__(self, folder: Path, wheel: Path, extras: str = ""):
        self.folder = folder
        venv.create(folder / "env", with_pip=True)
        wanted = f"ilbo{extras} @ {wheel.as_uri()}"
        self.run("python", "-m", "pip", "install", "--quiet", "--no-warn-script-location", wanted)

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        command = [str(self.folder / "env" / "bin" / program), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "WANDB_MODE": "offline"},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def test_the_wheel_works_in_an_empty_environment(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    machine = Machine(tmp_path, wheel)
    assert "usage: ilbo" in machine.run("ilbo", "--help")
    assert "ilbo 0." in machine.run("python", "-m", "ilbo", "--version")
    assert "rddl" in machine.run("ilbo", "doctor")
    machine.run("ilbo", *PLAN, "--out", "run")
    machine.run("ilbo", "report", "run")
    told = machine.run("python", "-c", "import ilbo.adapters.gym", code=1)
    assert "pip install 'ilbo[gym]'" in told
    for extra, command in {
        "rddl": ["plan", "rddl:hvac-3"],
        "export": ["export", "run", "--to", "shipped"],
        "onnx": ["export", "run", "--to", "shipped", "--onnx"],
        "tensorboard": [*PLAN, "--log", "tensorboard"],
        "mlflow": [*PLAN, "--log", "mlflow"],
        "wandb": [*PLAN, "--log", "wandb"],
        "tune": ["tune", "navigation-3"],
        "ray": ["reproduce", "learning-curves", "--on", "ray"],
    }.items():
        told = machine.run("ilbo", *command, code=2)
        assert f"pip install 'ilbo[{extra}]'" in told
        assert "Traceback" not in told


@pytest.mark.parametrize(
    ("extra", "command"),
    {
        "rddl": ["ilbo", "plan", "rddl:hvac-3", "--episodes", "25"],
        "export": ["ilbo", "export", "run", "--to", "shipped"],
        "onnx": ["ilbo", "export", "run", "--to", "shipped", "--onnx"],
        "tensorboard": ["ilbo", *PLAN, "--log", "tensorboard"],
        "mlflow": ["ilbo", *PLAN, "--log", "mlflow"],
        "wandb": ["ilbo", *PLAN, "--log", "wandb"],
        "tune": ["ilbo", "tune", *PLAN[1:], "--trials", "2", "--fresh-seeds", "1"],
        "gym": ["python", "-c", "import ilbo.adapters.gym"],
        "ray": ["python", "-c", "import ray, ilbo.experiments.engines"],
    }.items(),
)
def test_each_extra_alone(dist, tmp_path, extra, command):
    (wheel,) = dist.glob("*.whl")
    machine = Machine(tmp_path, wheel, f"[{extra}]")
    if "export" in command:
        machine.run("ilbo", *PLAN, "--out", "run")
    machine.run(*command)
