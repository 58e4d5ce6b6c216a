"""Formulas as MathML, which browsers draw without a script and without a network."""

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOG = logging.getLogger(__name__)


def _converted(text: str, node: object, as_block: bool) -> str:
    try:
        return tex2mathml(text, as_block=as_block)
    except MathError as error:
        _LOG.warning("a formula cannot be shown: %s: %s", text, error, location=node)
        return ""


def _inline(self: HTML5Translator, node: object) -> None:
    self.body.append(_converted(node.astext(), node, as_block=False))
    raise SkipNode


def _block(self: HTML5Translator, node: object) -> None:
    self.body.append(f'<div class="formula">{_converted(node.astext(), node, as_block=True)}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
