"""The notebooks: written as their sources say, and run from beginning to end."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "benchmarks" / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)


def kept(name):
    return json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text())["cells"]


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_is_what_its_source_says_and_was_run(name):
    source = notebooks.cells(notebooks.FOLDER / f"{name}.py")
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in kept(name)] == source
    ran = [cell["execution_count"] for cell in kept(name) if cell["cell_type"] == "code"]
    assert ran == list(range(1, len(ran) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs(name):
    made = notebooks.executed(notebooks.FOLDER / f"{name}.py")
    kinds = [output["output_type"] for cell in made.cells for output in cell.get("outputs", [])]
    assert "error" not in kinds
    assert len(kinds) == sum(len(cell.get("outputs", [])) for cell in kept(name))
