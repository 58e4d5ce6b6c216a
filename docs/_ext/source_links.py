"""The role `src`: a link to a file of the repository, which must exist."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[2]
_PAGE = "https://github.com/fastsvm/fastsvm/blob/main/"


def _source(name: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any, **__: Any) -> tuple[list, list]:
    if not (_ROOT / text).exists():
        message = inliner.reporter.error(f"there is no file {text}", line=lineno)
        return [inliner.problematic(rawtext, rawtext, message)], [message]
    return [nodes.reference(rawtext, "", nodes.literal(text, text), refuri=_PAGE + text)], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the role."""
    app.add_role("src", _source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
