"""Runs the notebooks of the documentation and writes them with what they print and draw.

    python benchmarks/notebooks.py [--to FOLDER] [NAME ...]

A notebook's cells are those of docs/notebooks/NAME.py: each begins with `# %%`, text with
`# %% [markdown]`. They run in an empty folder; the notebooks lie beside the files unless told
otherwise.
"""

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
TEXT = " [markdown]"


def cells(path: Path) -> list[tuple[str, str]]:
    """Kind and source of each cell of a file."""
    found = []
    for part in path.read_text().split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if head == TEXT:
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            found.append(("markdown", "\n".join(lines)))
        else:
            found.append(("code", body.strip()))
    return found


def executed(path: Path) -> Any:
    import nbformat.v4 as form
    from nbclient import NotebookClient

    make = {"markdown": form.new_markdown_cell, "code": form.new_code_cell}
    made = [
        make[kind](source, id=f"cell-{place}") for place, (kind, source) in enumerate(cells(path))
    ]
    notebook = form.new_notebook(cells=made)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=1200,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    for cell in made:  # a line on stderr says that something is compiled
        if cell.cell_type == "code":
            cell.outputs = _joined(out for out in cell.outputs if out.get("name") != "stderr")
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    return notebook


def _joined(outputs: Iterable[Any]) -> list[Any]:
    """Neighbours on standard output as one: how they come apart hangs on the clock."""
    found: list[Any] = []
    for out in outputs:
        if found and out.output_type == found[-1].output_type == "stream":
            found[-1].text += out.text
        else:
            found.append(out)
    return found


def main() -> None:
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--to", type=Path, default=FOLDER)
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        notebook = executed(FOLDER / f"{name}.py")
        nbformat.write(notebook, options.to / f"{name}.ipynb")
        print(f"{name}: {len(notebook.cells)} cells")


if __name__ == "__main__":
    main()
