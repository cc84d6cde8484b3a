"""The directive `fields`: a table of those fields of a class that have a docstring below them.

    ```{fields} ilbo.planning.config:ILBO
    :presets: paper
    :groups: GROUPS
    ```

With `presets`, columns for the default and for the named class methods' values follow. With
`groups`, the name of a dict of the same module from titles to fields, there is a table for each.
"""

import importlib
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ilbo.runs.settings import docstrings


class Fields(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar = {"presets": directives.unchanged, "groups": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        module, name = self.arguments[0].split(":")
        home = importlib.import_module(module)
        kind = getattr(home, name)
        texts = docstrings(kind)
        if "groups" not in self.options:
            return self.table(kind, texts)
        groups = getattr(home, self.options["groups"])
        return [
            node
            for title, fields in groups.items()
            for node in (
                nodes.rubric(text=title),
                *self.table(kind, {field: texts[field] for field in fields}),
            )
        ]

    def table(self, kind: type, texts: dict[str, str]) -> list[nodes.Node]:
        presets = self.options.get("presets", "").split()
        made = [kind(), *(getattr(kind, preset)() for preset in presets)] if presets else []
        header = ["field", "what it is", *(["default", *presets] if presets else [])]
        rows = [
            [
                f"`{field}`",
                text.replace("|", "\\|"),
                *(f"`{shown(getattr(values, field))}`" for values in made),
            ]
            for field, text in texts.items()
        ]
        lines = [header, ["---"] * len(header), *rows]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        return self.parse_text_to_nodes(table)


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True}
