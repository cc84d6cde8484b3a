"""Formulas as MathML, which browsers draw themselves: the site needs no script from elsewhere."""

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def inline(translator, node) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def block(translator, node) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
