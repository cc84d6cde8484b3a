"""What the documentation shows is what happens: its examples are run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import ilbo

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if ">>> " in page.read_text()
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text()
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(page: Path) -> str:
    """The `>>>` blocks of a page, in order, so that one can use what another one made."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return "\n\n".join(block for block in blocks if ">>> " in block)


LONG = ("extending.md", "generalisation.md", "tuning.md")
"""Pages whose examples compile much."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow) if p.name in LONG else p for p in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples_of_a_page(page):
    parsed = doctest.DocTestParser().get_doctest(examples(page), {}, page.name, str(page), 0)
    assert parsed.examples
    report: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(parsed, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize(
    "name",
    [pytest.param(m, marks=pytest.mark.slow) if m.startswith("ilbo.api") else m for m in MODULES],
)
def test_examples_of_a_module(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"ilbo": ilbo}, optionflags=FLAGS, verbose=False)
    assert result.attempted
    assert not result.failed


def test_page_about_own_models_shows_the_script():
    """Each line of the page's model and problem is one of the script's, in the same order."""
    script = (ROOT / "examples" / "own_model.py").read_text()
    page = examples(ROOT / "docs" / "own_model.md").split("ilbo.Problem(Fishery(), name=")[0]
    shown = "\n".join(
        line[4:] for line in page.splitlines() if line.startswith((">>> ", "... ", "..."))
    )
    model = shown[shown.index("class Fishery") : shown.index("problem = ")]
    problem = shown[shown.index("problem = ") :].rsplit(")", 1)[0]
    assert model.strip() in script
    assert problem.strip() in script
