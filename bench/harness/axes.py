"""What all pictures of results share: colours and ticks."""

from typing import Any

from bench.harness.suite import Finished

__all__ = ["colours_of", "plain_ticks"]

_COLOURS = ("#1b6ca8", "#e07a1f", "#6a8f3c", "#8e5ba6", "#b23a48", "#5f6b73", "#3aa6a0", "#c2a14d")


def colours_of(finished: list[Finished]) -> dict[str, str]:
    """Return a colour for each competitor."""
    names = list(dict.fromkeys(result.competitor for one in finished for result in one.results))
    return dict(zip(names, _COLOURS * len(names), strict=False))


_LONG = 1000  # times the least value, the largest one of an axis on which there is no room for labels within decades


def plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis with 0.2, 0.5, 1, 2, 5, 10: as many as fit; long axes with 0.1, 1, 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < _LONG * low else (1,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
