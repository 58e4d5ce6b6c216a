"""A bar of tqdm, on a terminal or in a notebook."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tqdm.auto import tqdm


class _NoBar:
    """Stands in for a bar that is not shown: tqdm's own takes a tenth of a small fit."""

    disable = True
    unit = ""
    total: float = 0

    def __init__(self, values: Iterable | None) -> None:
        self._values = values

    def __iter__(self) -> Iterator:
        return iter(() if self._values is None else self._values)

    def __enter__(self) -> "_NoBar":
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return any method of a bar: it does nothing."""
        return lambda *shown, **more: None


Bar: TypeAlias = tqdm | _NoBar
"""A bar that moves by `update`, and does nothing where it is not shown."""


def progress_bar(values: Iterable | None = None, *, shown: bool | int = True, **more: object) -> Bar:
    """Return a bar of tqdm, or what does nothing in its place; without `values`, `update` tells it of progress."""
    if not shown or sys.stderr is None:  # closed, or that of `pythonw` on Windows
        return _NoBar(values)
    return tqdm(values, disable=None, **more)  # None: on terminals only
