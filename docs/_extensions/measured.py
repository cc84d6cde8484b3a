"""What was measured, as it lies in docs/results.

`measured BENCHMARK FILE` is the table that benchmarks/BENCHMARK.py makes of docs/results/FILE;
a third word names another function of it that makes the table. `studies` lists the pages there.
"""

import importlib.util
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parents[1]
RESULTS = DOCS / "results"


class Measured(SphinxDirective):
    required_arguments = 2
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        name, data = self.arguments[0], RESULTS / self.arguments[1]
        self.env.note_dependency(str(data))
        path = DOCS.parent / "benchmarks" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        benchmark = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = benchmark  # dataclasses look their module up
        spec.loader.exec_module(benchmark)
        make = getattr(benchmark, (self.arguments[2:] or ["table"])[0])
        return self.parse_text_to_nodes(make(data))


class Studies(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        pages = sorted(page.stem for page in RESULTS.glob("*.md"))
        if not pages:
            return []
        tree = "\n".join(
            ["```{toctree}", ":maxdepth: 1", "", *(f"results/{p}" for p in pages), "```"]
        )
        return self.parse_text_to_nodes(tree)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("measured", Measured)
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True}
