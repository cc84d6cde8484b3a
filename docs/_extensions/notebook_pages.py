"""Executed notebooks (`.ipynb`) as pages: text, code, and what that printed and drew."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


def as_markdown(notebook: dict[str, Any], name: str) -> str:
    """The notebook as a page, with a link to the file below its title."""
    first, *rest = notebook["cells"]
    title, _, text = "".join(first["source"]).partition("\n")
    file = f"{{download}}`This page as a notebook <{name}.ipynb>`"
    return "\n\n".join([title, text, file, *map(_cell, rest)]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([_fenced(source, "python"), *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        alt = output["metadata"].get("image/png", {}).get("alt", "What the code above draws")
        return f"![{alt}](data:image/png;base64,{''.join(data['image/png'].split())})"
    return _fenced("".join(output.get("text", data.get("text/plain", ""))), "text")


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


class NotebookParser(MystParser):
    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        name = Path(document["source"]).stem
        super().parse(as_markdown(json.loads(inputstring), name), document)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
