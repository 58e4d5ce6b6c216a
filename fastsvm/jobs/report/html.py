"""HTML of a report: readable numbers, tables, sections and the page.

`shown` alone turns text into HTML: it escapes everything that is not `Html` already.
"""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fastsvm.jobs.visible import visible
from fastsvm.tuning import Look

__all__ = ["Html", "amount", "duration", "facts", "joined", "page", "rounded", "section", "shown", "table"]

_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Html(str):
    """Text that is HTML already and is not escaped."""

    __slots__ = ()


def rounded(value: float, digits: int = Look().digits) -> str:
    """Return a number rounded to a few digits, with a power of ten if it is very large or small.

    Examples
    --------
    >>> rounded(1234567.8), rounded(0.000012), rounded(-0.5)
    ('1,234,568', '1.2 × 10⁻⁵', '−0.5')
    """
    if not math.isfinite(value):
        return "∞" if value == math.inf else "−∞" if value == -math.inf else "not a number"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    exponent = int(power)
    if value == 0 or -4 <= exponent < 9:
        text = _without_zeros(f"{value:,.{max(0, digits - 1 - exponent)}f}")
    else:
        text = f"{_without_zeros(mantissa)} × 10{raised(exponent)}"
    return text.replace("-", "−") if text != "-0" else "0"


def raised(exponent: int) -> str:
    """Return an exponent in superscript digits."""
    return str(exponent).translate(_RAISED)


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 60:
        return f"{rounded(seconds, 3)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def shown(value: Any) -> Html:
    """Return any value as escaped HTML."""
    if isinstance(value, Html):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return Html("–")
    if isinstance(value, bool):
        return Html("yes" if value else "no")
    if isinstance(value, int):
        return Html(f"{value:,}".replace("-", "−"))
    if isinstance(value, float):
        return Html(rounded(value))
    if isinstance(value, Mapping):
        return Html(", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return Html(", ".join(map(shown, value)))
    return Html(html.escape(visible(str(value))))


def amount(name: str, value: Any, words: str | None = None, unit: str = "") -> Html:
    """Return a number with a unit as a `data` element: programs find its exact value by the name, which is its id.

    `words` are shown instead of the rounded value.
    """
    if value is None:
        return shown(None)
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (bool, str)):
        return shown(value)
    text = shown(value) if words is None else shown(words)
    return Html(f'<data id="{name}" value="{json.dumps(value)}">{text}</data>{f" {unit}" if unit else ""}')


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Return parts joined by `between`, as HTML."""
    return Html(between.join(shown(part) for part in parts))


def facts(rows: Iterable[tuple[str, Any]]) -> Html:
    """Return a table of names and values."""
    lines = joined(Html(f'<tr><th scope="row">{shown(name)}</th><td>{shown(value)}</td></tr>') for name, value in rows)
    return Html(f'<table class="facts">{lines}</table>') if lines else lines


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], look: str = "list") -> Html:
    """Return a table with a head; the numbers of a column are right-aligned with the same number of decimals."""
    rows = list(rows)
    columns = [_column(values) for values in zip(*rows, strict=True)]
    looks = [" class=number" if values and _is_number(values[0]) else "" for values in zip(*rows, strict=True)]
    names = joined(Html(f'<th scope="col"{kind}>{shown(name)}</th>') for name, kind in zip(head, looks, strict=True))
    lines = joined(
        Html(f"<tr>{joined(Html(f'<td{kind}>{cell}</td>') for cell, kind in zip(cells, looks, strict=True))}</tr>")
        for cells in zip(*columns, strict=True)
    )
    body = f"<thead><tr>{names}</tr></thead><tbody>{lines}</tbody>"
    return Html(f'<div class="wide"><table class="{look}">{body}</table></div>')


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _column(values: Sequence[Any]) -> list[Html]:
    """Return the cells of a column; real numbers have the decimals that the largest needs for a few digits."""
    largest = max((abs(value) for value in values if isinstance(value, float)), default=0.0)
    if not 1e-4 <= largest < 1e9:
        return [shown(value) for value in values]
    decimals = max(0, Look().digits - 1 - math.floor(math.log10(largest)))
    in_line = (f"{value:,.{decimals}f}".replace("-", "−") if isinstance(value, float) else value for value in values)
    return [shown(value) for value in in_line]


def section(title: str, *parts: Html) -> Html:
    """Return a section with a title, nothing if it is empty."""
    body = joined(parts)
    return Html(f"<section><h2>{shown(title)}</h2>{body}</section>") if body else body


def page(title: str, body: Html) -> str:
    """Return the whole page as text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


# Colours are those of Okabe and Ito, lighter in the dark scheme. Cells are translucent, so that text stays readable.
_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --quiet: #5b6470; --rule: #dfe3e8; --tile: #f5f7f9;
  --first: #0072b2; --second: #d55e00; --third: #00805c; --right: 0 114 178; --wrong: 213 94 0 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --ink: #e6e9ed; --quiet: #9aa4b0; --rule: #30363d; --tile: #1c2127;
    --first: #56b4e9; --second: #ff9248; --third: #3ccf9e; --right: 60 165 235; --wrong: 240 125 40 } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  color: var(--ink); background: var(--ground); max-width: 64rem; margin: 0 auto; padding: 3rem 1.5rem 5rem;
  font-variant-numeric: tabular-nums }
h1 { font-size: 2rem; line-height: 1.2; margin: .1rem 0 .6rem; overflow-wrap: anywhere }
h2 { font-size: 1.2rem; margin: 0 0 1rem }
section { border-top: 1px solid var(--rule); margin-top: 2.5rem; padding-top: 1.5rem }
p { margin: 0 0 1rem; max-width: 46rem }
.above { color: var(--quiet); margin: 0 }
.outcome { font-size: 1.15rem }
.note, figcaption, .tile span { color: var(--quiet); font-size: .875rem }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin-top: 1.75rem }
.tile { background: var(--tile); border-radius: 8px; padding: .75rem 1rem }
.tile b { display: block; font-size: 1.35rem; font-weight: 600; white-space: nowrap }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1.75rem 2.5rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .9375rem }
th { text-align: left; font-weight: 500; color: var(--quiet) }
.facts { width: 100%; align-self: start }
.facts th, .facts td, .list th, .list td { border-bottom: 1px solid var(--rule); padding: .35rem 0;
  vertical-align: top }
.facts th { width: 11rem; padding-right: 1rem }
.facts td { overflow-wrap: anywhere }
.list { width: 100% }
.list th, .list td { padding-right: 1.5rem }
.list .number { text-align: right; padding: .35rem 0 .35rem 1.5rem; width: 7rem }
.list .number:first-child { padding-left: 0; width: 4rem }
.list .number + :not(.number) { padding-left: 2.5rem }
.counts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .1rem 2.5rem;
  margin-top: .5rem; font-size: .9375rem }
.counts div { display: flex; justify-content: space-between; gap: 1rem; border-bottom: 1px solid var(--rule);
  padding: .3rem 0; overflow-wrap: anywhere }
.counts span { color: var(--quiet) }
details { margin-top: 1rem }
summary { cursor: pointer; color: var(--quiet); margin-bottom: .5rem }
figure { margin: 0 }
figcaption { margin-top: .35rem }
figcaption:empty { display: none }
figure > b { font-weight: 600 }
.key { display: inline-block; width: 1.25em; border-top: 3px solid; margin: 0 .4em .25em .9em }
.key.first { border-color: var(--first) } .key.second { border-color: var(--second) }
.key.third { border-color: var(--third) } .key.limit { border-top: 2px dashed var(--quiet) }
svg { display: block; width: 100%; height: auto; overflow: visible }
svg text { font-size: 13px; fill: var(--quiet) }
svg path { fill: none; stroke-linecap: round; stroke-linejoin: round }
.grid { stroke: var(--rule); stroke-width: 1 } .axis { stroke: var(--quiet); stroke-width: 1 }
.line { stroke-width: 2 } .dot { stroke-width: 6 } .cloud { stroke-width: 4.5; opacity: .45 }
.pale { stroke-width: 1.25; opacity: .5 } .limit { stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 5 5 }
.first { stroke: var(--first) } .second { stroke: var(--second) } .third { stroke: var(--third) }
.confusion { font-size: .875rem; border-collapse: separate; border-spacing: 2px }
.confusion th { padding: .3rem .5rem; white-space: nowrap }
.confusion thead th { text-align: center; vertical-align: bottom }
.confusion .tall span { writing-mode: vertical-rl; transform: rotate(180deg) }
.confusion td { text-align: right; padding: .4rem .55rem; min-width: 2.9rem; border-radius: 3px }
.confusion td.of { background: rgb(var(--shade) / var(--depth)) }
.confusion td.none { color: var(--quiet); opacity: .55 }
.confusion .diagonal { --shade: var(--right) } .confusion .beside { --shade: var(--wrong) }
.images { display: grid; grid-template-columns: repeat(auto-fill, minmax(6.4rem, 1fr)); gap: 1.25rem 1rem }
.images img { width: 100%; aspect-ratio: 1; image-rendering: pixelated; border-radius: 4px; display: block;
  background: var(--tile) }
.images figcaption { line-height: 1.35; overflow-wrap: anywhere }
.images b { color: var(--ink); font-weight: 600 }
@media print { section { break-inside: avoid } }
"""
