"""The directive `fields`: a table of those fields of a class that have a docstring below them.

    ```{fields} ilbo.config:ILBO
    :presets: paper
    ```

With `presets`, columns for the default and for the named class methods' values follow.
"""

import ast
import importlib
import inspect
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Fields(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar = {"presets": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        module, name = self.arguments[0].split(":")
        kind = getattr(importlib.import_module(module), name)
        presets = self.options.get("presets", "").split()
        made = [kind(), *(getattr(kind, preset)() for preset in presets)] if presets else []
        header = ["field", "what it is", *(["default", *presets] if presets else [])]
        rows = [
            [f"`{field}`", text, *(f"`{shown(getattr(values, field))}`" for values in made)]
            for field, text in docstrings(kind).items()
            if text
        ]
        lines = [header, ["---"] * len(header), *rows]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        return self.parse_text_to_nodes(table)


def docstrings(kind: type) -> dict[str, str]:
    """The text below each field, empty where there is none."""
    (definition,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = ""
        elif (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and found
        ):
            last = next(reversed(found))
            found[last] = " ".join(str(statement.value.value).split()).replace("|", "\\|")
    return found


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True}
