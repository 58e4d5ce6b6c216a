"""Tables of Markdown, and how numbers are written in them."""

from collections.abc import Iterable

__all__ = ["seconds", "table"]


def seconds(value: float) -> str:
    """Return seconds with two digits."""
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def table(heading: list[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table."""
    return [_line(heading), "|" + "---|" * len(heading), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
