"""Sphinx settings: `make docs` builds the site into docs/_build."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from ilbo.version import __version__

project = "ilbo"
copyright = "the ilbo authors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "offline_maths",
    "dataclass_fields",
    "measured",
    "notebook_pages",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"ilbo {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


plain: dict[str, list[str]] = {}
"""Docstrings of attributes: napoleon would take what stands before a colon for a type."""


def before_napoleon(app, what, name, obj, options, lines) -> None:
    lines[:] = [line.replace("[*", r"[\*") for line in lines]  # a shape such as [*batch, n]
    if what == "attribute":
        plain[name] = list(lines)


def after_napoleon(app, what, name, obj, options, lines) -> None:
    if what == "attribute":
        lines[:] = plain[name]


def setup(app) -> None:
    app.connect("autodoc-process-docstring", before_napoleon, priority=100)
    app.connect("autodoc-process-docstring", after_napoleon, priority=900)
