"""A bar of tqdm on a terminal or in a notebook, and elsewhere a line now and then."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tqdm import TqdmWarning, std

from fastsvm.messages import tell

with warnings.catch_warnings():
    warnings.simplefilter("ignore", TqdmWarning)  # A notebook without ipywidgets has a bar of text.
    from tqdm.auto import tqdm

_FIRST_LINE, _LONGEST_PAUSE = 1.0, 300.0  # seconds


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


class _Lines(std.tqdm):
    """Tells how far the work is by a line after a second, after two, four and so on, at least every five minutes."""

    def __init__(self, values: Iterable | None, **more: object) -> None:
        self._next = _FIRST_LINE
        lines = {"bar_format": "{desc}: {n_fmt}/{total_fmt} {unit} [{elapsed}{postfix}]"}
        super().__init__(values, **lines | more | {"gui": True})  # so tqdm itself writes nothing

    def display(self, *what: object, **where: object) -> None:
        """Tell, if it is time."""
        elapsed = self.format_dict["elapsed"]
        if elapsed >= self._next:
            self._next = elapsed + min(elapsed, _LONGEST_PAUSE)
            tell(" ".join(str(self).split()))


Bar: TypeAlias = tqdm | _NoBar
"""A bar that moves by `update`, and does nothing where it is not shown."""


def progress_bar(values: Iterable | None = None, *, shown: bool | int = True, **more: object) -> Bar:
    """Return a bar of tqdm, or what does nothing in its place; without `values`, `update` tells it of progress."""
    if not shown or sys.stderr is None:  # closed, or that of `pythonw` on Windows
        return _NoBar(values)
    is_seen = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    return tqdm(values, **more) if is_seen else _Lines(values, **more)
