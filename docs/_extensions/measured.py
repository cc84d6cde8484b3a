"""What was measured, as it lies in docs/results.

`quality` is the table of benchmarks/quality.py over quality.jsonl; `studies` lists the pages there.
"""

import importlib.util
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parents[1]
DATA = DOCS / "results" / "quality.jsonl"
BENCHMARK = DOCS.parent / "benchmarks" / "quality.py"


class Quality(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(DATA))
        spec = importlib.util.spec_from_file_location("quality_benchmark", BENCHMARK)
        assert spec is not None
        assert spec.loader is not None
        benchmark = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(benchmark)
        return self.parse_text_to_nodes(benchmark.table(DATA))


class Studies(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        pages = sorted(page.stem for page in DATA.parent.glob("*.md"))
        if not pages:
            return []
        tree = "\n".join(
            ["```{toctree}", ":maxdepth: 1", "", *(f"results/{p}" for p in pages), "```"]
        )
        return self.parse_text_to_nodes(tree)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("quality", Quality)
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True}
