"""HTML of a report: readable numbers, tables, charts as SVG, images as PNG, sections and the page.

`shown` alone turns text into HTML: it escapes everything that is not `Html` already.
"""

import base64
import html
import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from fastsvm.messages import visible
from fastsvm.tuning import Look, current_tuning

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
        text = f"{_without_zeros(mantissa)} × 10{_raised(exponent)}"
    return text.replace("-", "−") if text != "-0" else "0"


def _raised(exponent: int) -> str:
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


def shown(value: object) -> Html:
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


def amount(name: str, value: object, words: str | None = None, unit: str = "") -> Html:
    """Return a number with a unit, or `words`, as a `data` element, whose id and exact value are for programs."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, str)):
        return shown(value)
    text = shown(value if words is None else words)
    return Html(f'<data id="{name}" value="{json.dumps(value)}">{text}</data>{f" {unit}" if unit else ""}')


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Return parts joined by `between`, as HTML."""
    return Html(between.join(shown(part) for part in parts))


def facts(rows: Iterable[tuple[str, object]]) -> Html:
    """Return a table of names and values."""
    lines = joined(Html(f'<tr><th scope="row">{shown(name)}</th><td>{shown(value)}</td></tr>') for name, value in rows)
    return Html(f'<table class="facts">{lines}</table>') if lines else lines


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table with a head; the numbers of a column are right-aligned with the same number of decimals."""
    columns = list(zip(*rows, strict=True))
    looks = [" class=number" if is_number(values[0]) else "" for values in columns]
    names = joined(Html(f'<th scope="col"{kind}>{shown(name)}</th>') for name, kind in zip(head, looks, strict=True))
    lines = joined(
        Html(f"<tr>{joined(Html(f'<td{kind}>{cell}</td>') for cell, kind in zip(cells, looks, strict=True))}</tr>")
        for cells in zip(*map(_column, columns), strict=True)
    )
    body = f"<thead><tr>{names}</tr></thead><tbody>{lines}</tbody>"
    return Html(f'<div class="wide"><table class="list">{body}</table></div>')


def is_number(value: object) -> bool:
    """Return whether a value is a number, and no bool."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _column(values: Sequence[object]) -> list[Html]:
    """Return the cells of a column; real numbers have the decimals that the largest needs for a few digits."""
    largest = max((abs(value) for value in values if isinstance(value, float)), default=0.0)
    if not 1e-4 <= largest < 1e9:
        return [shown(value) for value in values]
    decimals = max(0, Look().digits - 1 - math.floor(math.log10(largest)))
    in_line = (f"{value:,.{decimals}f}".replace("-", "−") if isinstance(value, float) else value for value in values)
    return [shown(value) for value in in_line]


def note(words: str) -> Html:
    """Return a paragraph that explains what follows or precedes."""
    return Html(f'<p class="note">{shown(words)}</p>')


def pair(*parts: Html) -> Html:
    """Return parts side by side, nothing if all are empty."""
    body = joined(parts)
    return Html(f'<div class="pair">{body}</div>') if body else body


def section(title: str, *parts: Html) -> Html:
    """Return a section with a title, nothing if it is empty."""
    body = joined(parts)
    return Html(f"<section><h2>{shown(title)}</h2>{body}</section>") if body else body


def style() -> str:
    """Return the style sheet of reports."""
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def page(title: str, body: Html) -> str:
    """Return the whole page as text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown(title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


# --- charts and images --------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A curve: its name, which may be empty, its points, and its classes in the style sheet."""

    name: str
    x: np.ndarray
    y: np.ndarray
    look: str = "line first"


class Axes(NamedTuple):
    """Title and names of the axes; whether y is logarithmic, begins at 0, or has the range of x."""

    title: str
    x_name: str
    y_name: str
    log: bool = False
    from_zero: bool = False
    square: bool = False


class _Scale(NamedTuple):
    """An axis: maps values from `low` to `high` to positions from `start` to `stop`, with ticks."""

    low: float
    high: float
    start: float
    stop: float
    ticks: np.ndarray
    labels: list[str]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return self.start + (self.stop - self.start) * (np.asarray(values) - self.low) / (self.high - self.low)


def chart(lines: Sequence[Line], axes: Axes, note: str = "") -> Html:
    """Return a figure with some curves, without points that have no place on the axes, and a note as caption."""
    lines = [line for line in (_drawable(line, axes.log, len(lines)) for line in lines) if len(line.x)]
    if not lines:
        return Html("")
    every_x, every_y = (np.concatenate([getattr(line, name) for line in lines]) for name in "xy")
    if axes.square:
        every_x = every_y = np.concatenate([every_x, every_y])
    look = current_tuning().look
    width, height = look.width, look.width * 9 // 16
    floor = height - 3 * look.line  # of the x axis, below which there are three lines of text
    y = (_decades if axes.log else _even)(every_y, floor, 2 * look.line, axes.from_zero)
    left = (1 + max(map(len, y.labels))) * look.line / 2
    late = every_x.min() > every_x.max() / 2  # an axis from 0 would be empty for the most part
    x = _even(every_x, left, width - look.line, not (axes.square or late))
    drawn = joined(_path(line, x, y, axes.log) for line in lines)
    picture = (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{shown(axes.title)}">'
        f"{_frame(x, y, axes, floor)}{drawn}</svg>"
    )
    named = joined(Html(f'<span class="key {_colour(line)}"></span>{shown(line.name)}') for line in lines if line.name)
    return Html(f"<figure><b>{shown(axes.title)}</b>{named}{picture}<figcaption>{shown(note)}</figcaption></figure>")


def _drawable(line: Line, log: bool, n_lines: int) -> Line:
    """Return the points that can be drawn, thinned out if they are many."""
    x, y = np.asarray(line.x, np.float64), np.asarray(line.y, np.float64)
    good = np.isfinite(x) & np.isfinite(y) & ((y > 0) | (not log))
    x, y = x[good], y[good]
    most = max(8, current_tuning().look.points // max(1, n_lines))
    if len(x) > most:
        kept = np.unique(np.linspace(0, len(x) - 1, most).round().astype(int))
        x, y = x[kept], y[kept]
    return line._replace(x=x, y=y)


def _colour(line: Line) -> str:
    return line.look.split()[-1]


def _even(values: np.ndarray, start: float, stop: float, from_zero: bool) -> _Scale:
    """Return a linear scale with round ticks, whose labels have as many digits as they need to differ."""
    low, high = float(values.min()), float(values.max())
    low = min(low, 0.0) if from_zero else low
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = (0.0, 2 * high) if high > 0 else (2 * low, 0.0) if high < 0 else (0.0, 1.0)
    margin = current_tuning().look.padding * (high - low)
    low, high = low - margin * (not from_zero), high + margin
    least = (high - low) / current_tuning().look.ticks
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= least * (1 - 1e-9))
    ticks = step * np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    digits = 2 + math.ceil(math.log10(max(abs(low), abs(high)) / step))
    return _Scale(low, high, start, stop, ticks, [rounded(tick, digits) for tick in ticks.tolist()])


def _decades(values: np.ndarray, start: float, stop: float, from_zero: bool) -> _Scale:
    """Return a logarithmic scale; it maps exponents of ten."""
    low, high = math.floor(math.log10(values.min()) + 1e-9), math.ceil(math.log10(values.max()) - 1e-9)
    high = max(high, low + 1)
    ticks = np.arange(low, high + 1, max(1, math.ceil((high - low) / current_tuning().look.ticks)))
    labels = [f"10{_raised(tick)}" if tick else "1" for tick in ticks.tolist()]
    return _Scale(low, high, start, stop, ticks, labels)


def _frame(x: _Scale, y: _Scale, axes: Axes, floor: int) -> Html:
    parts, line = [], current_tuning().look.line
    for place, label in zip(y(y.ticks), y.labels, strict=True):
        parts.append(f'<path class="grid" d="M{x.start:.1f} {place:.1f}H{x.stop:.1f}"/>')
        parts.append(f'<text x="{x.start - 8:.1f}" y="{place + 4.5:.1f}" text-anchor="end">{label}</text>')
    for place, label in zip(x(x.ticks), x.labels, strict=True):
        parts.append(f'<path class="axis" d="M{place:.1f} {floor}v5"/>')
        parts.append(f'<text x="{place:.1f}" y="{floor + 20}" text-anchor="middle">{label}</text>')
    parts.append(f'<path class="axis" d="M{x.start:.1f} {floor}H{x.stop:.1f}"/>')
    parts.append(f'<text x="0" y="{line}">{shown(axes.y_name)}</text>')
    parts.append(f'<text x="{x.stop:.1f}" y="{floor + 2.5 * line:g}" text-anchor="end">{shown(axes.x_name)}</text>')
    return Html("".join(parts))


def _path(line: Line, x: _Scale, y: _Scale, log: bool) -> Html:
    """Return a curve, with marked points if they are few; a cloud has points only."""
    heights = y(np.log10(line.y) if log else line.y)
    points = list(zip(x(line.x).round(1).tolist(), heights.round(1).tolist(), strict=True))
    dots = "".join(f"M{across:g} {down:g}h0" for across, down in points)
    if "cloud" in line.look:
        return Html(f'<path class="{line.look}" d="{dots}"/>')
    curve = "M" + "L".join(f"{across:g} {down:g}" for across, down in points) if len(points) > 1 else ""
    marked = "line" in line.look and len(points) <= current_tuning().look.marked
    dotted = f'<path class="dot {_colour(line)}" d="{dots}"/>' if marked else ""
    return Html(f'<path class="{line.look}" d="{curve}"/>{dotted}')


def png(pixels: np.ndarray) -> bytes:
    """Return a PNG file of pixels in uint8: grey of shape (height, width), or colours of shape (height, width, 3)."""
    height, width = pixels.shape[:2]
    colours = 0 if pixels.ndim == 2 else 2  # colour types of the PNG format
    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def picture(pixels: np.ndarray, words: str) -> Html:
    """Return an embedded image with alternative text."""
    text = base64.b64encode(png(pixels)).decode()
    return Html(f'<img src="data:image/png;base64,{text}" alt="{shown(words)}">')
