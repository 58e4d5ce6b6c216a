"""What the reference leaves out of the docstrings, and what it escapes in them."""

import re
from typing import Any

from sphinx.application import Sphinx


def _skips(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn's base classes add: its docstrings refer to pages of its own site."""
    module = getattr(member, "__module__", None) or ""
    if module.split(".")[0] == "sklearn" or re.fullmatch(r"set_\w+_request|get_metadata_routing", name):
        return True
    return None


def _escape(app: Sphinx, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Escape bars: |x| is an absolute value, not a substitution."""
    lines[:] = [line if line.lstrip().startswith(">>>") else re.sub(r"(?<!\\)\|", r"\\|", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both."""
    app.connect("autodoc-skip-member", _skips)
    app.connect("autodoc-process-docstring", _escape, priority=900)  # after numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
