"""Exact support vector machines, many times faster, on data that need not fit in memory."""

import ast
import importlib
from pathlib import Path

from fastsvm import _interrupt

if not _interrupt.is_command():  # which would take a second to say its version, and imports it with all else
    from fastsvm._compiled import threads  # noqa: F401, notes the threads of BLAS before the user limits them

__version__ = "0.2.0"


def _homes() -> dict[str, str]:
    """Return the modules of all public names, as `__init__.pyi` imports them for editors and type checkers."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOMES = _homes()
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Import what a program asks for, when it asks: all of it takes half a second."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"fastsvm.{name}" if _HOMES[name] == "fastsvm" else _HOMES[name])
    value = globals()[name] = home if _HOMES[name] == "fastsvm" else getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
