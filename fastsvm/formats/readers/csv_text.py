"""Tables of numbers as text, with one row per line and one column of labels.

The file is read twice. The first pass finds the number of rows and the type of the labels.
"""

import csv
import io
import math
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastsvm.formats.readers.files import Lines, head, opened
from fastsvm.formats.readers.rows import Rows
from fastsvm.formats.readers.stream import Header, Options, Stream

__all__ = ["read", "recognises"]

_DELIMITERS = "\t;,"
_CELL_BYTES = 64  # a short str and the pointer to it
_LINE_SHARE = 32  # of memory: the cells of a line take more than its text
_COUNT = re.compile(r"-?\d+")  # on the command line, such a label is a position
_KINDS = (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.str_))


class _Layout(NamedTuple):
    """Layout of the cells. `label` is None if no column holds labels; `longest` bounds the length of a row."""

    path: Path
    delimiter: str
    header: list[str] | None
    width: int
    label: int | None
    longest: int

    def column(self, position: int) -> str:
        """Return the name of a column for messages."""
        name = f" ({self.header[position]})" if self.header else ""
        return f"column {position + 1}{name}"


def recognises(path: Path) -> bool:
    """Return whether a file is text with a delimiter, or its name ends in .csv or .tsv."""
    if path.is_dir():
        return False
    if {".csv", ".tsv"} & set(path.suffixes):
        return True
    start = head(path, 1 << 16)
    lines = start.decode("utf-8", "replace").splitlines()
    return b"\0" not in start and bool(lines) and any(mark in lines[0] for mark in _DELIMITERS)


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Read a table in two passes: count its rows, then yield them."""
    layout = _layout(path, options.label, options.memory // _LINE_SHARE)
    n_samples, y_dtype = _first_pass(layout)
    dtype = options.dtype or np.dtype(np.float32)
    n_features = layout.width - (layout.label is not None)
    header = Header(n_features, dtype, y_dtype, n_samples=n_samples)
    yield Stream(header, _blocks(layout, header, options.rows(layout.width * _CELL_BYTES)))


@contextmanager
def _text(path: Path, longest: int) -> Iterator[Lines[str]]:
    with opened(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            yield Lines(text, longest, path)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text in UTF-8: {error}.") from error


def _cells(path: Path, delimiter: str, longest: int) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the cells of each line that is not blank, with the number of the line."""
    with _text(path, longest) as text:
        lines = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for cells in lines:
                text.taken = 0
                if cells and any(map(str.strip, cells)):
                    yield lines.line_num, cells
        except csv.Error as error:
            raise ValueError(f"{path}, line {lines.line_num}: {error}.") from error


def _rows(layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row after the header; all rows have the same number."""
    rows = _cells(layout.path, layout.delimiter, layout.longest)
    if layout.header:
        next(rows)
    for line, cells in rows:
        if len(cells) != layout.width:
            raise ValueError(
                f"{layout.path}, line {line} has {len(cells)} cells, the first line has {layout.width}; the "
                "file is truncated or damaged there."
            )
        yield line, cells


def _layout(path: Path, label: object, longest: int) -> _Layout:
    delimiter = _delimiter(path, longest)
    rows = _cells(path, delimiter, longest)
    _, first = next(rows, (0, []))
    _, second = next(rows, (0, None))
    rows.close()
    if not first:
        raise ValueError(f"{path} has only blank lines.")
    position = _position(label, first, path)
    if len(first) == (position is not None):
        raise ValueError(f"{path} has one column, so no features; label=False makes it a feature.")
    named = isinstance(label, str) and not _COUNT.fullmatch(label)
    header = first if named or _is_header(first, second, position) else None
    return _Layout(path, delimiter, header, len(first), position, longest)


def _delimiter(path: Path, longest: int) -> str:
    """Return the delimiter that divides the first line into the most cells."""
    with _text(path, longest) as text:
        line = next((line for line in text if line.strip()), "")
    return max(_DELIMITERS, key=lambda mark: (_n_cells(line, mark), mark == ","))


def _n_cells(line: str, mark: str) -> int:
    """Return the number of cells of a line; 0 if a cell is too long."""
    try:
        return len(next(csv.reader([line], delimiter=mark), []))
    except csv.Error:
        return 0


def _position(label: object, first: list[str], path: Path) -> int | None:
    if label is False:
        return None
    if isinstance(label, str) and not _COUNT.fullmatch(label):
        names = [name.strip() for name in first]
        if names.count(label) != 1:
            found = "two such columns" if label in names else f"the columns {', '.join(names[:20])}"
            raise ValueError(f"{path} must have one column {label!r}; its first line has {found}.")
        return names.index(label)
    position = -1 if label is None else int(str(label))
    if not -len(first) <= position < len(first):
        raise ValueError(f"label={position} is not a column of {path}, which has {len(first)} columns.")
    return position % len(first)


def _is_header(first: list[str], second: list[str] | None, label: int | None) -> bool:
    """Return whether the first line names the columns: it has no numbers, and some cell is not empty."""
    features = [cell for k, cell in enumerate(first) if k != label]
    if all(_number(cell) is None for cell in first) and any(map(str.strip, features)):
        return True
    # If columns are named 0, 1, 2, ..., only the name of the label is a word above a number.
    if label is None or second is None or len(second) != len(first):
        return False
    return _number(first[label]) is None and _number(second[label]) is not None


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _first_pass(layout: _Layout) -> tuple[int, np.dtype | None]:
    """Return the number of rows and the type that holds all labels."""
    n_samples, kind = 0, 0
    for line, cells in _rows(layout):
        n_samples += 1
        if layout.label is not None:
            kind = max(kind, _kind(cells[layout.label].strip(), layout, layout.label, line))
    if n_samples == 0:
        raise ValueError(f"{layout.path} holds no rows below its first line.")
    return n_samples, None if layout.label is None else _KINDS[kind]


def _kind(cell: str, layout: _Layout, column: int, line: int) -> int:
    value = _number(cell)
    if not cell or (value is not None and not math.isfinite(value)):
        where = f"{layout.path}, line {line}, {layout.column(column)}"
        raise ValueError(f"{where}: {cell!r} is not a label; a label is a finite number or a word.")
    if value is None:
        return 2
    return 0 if value.is_integer() and abs(value) < 2**53 else 1


def _blocks(layout: _Layout, header: Header, step: int) -> Iterator[Rows]:
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, cells in _rows(layout):
        lines.append(line)
        rows.append(cells)
        if len(rows) == step:
            yield _parsed(layout, header, lines, rows)
            lines, rows = [], []
    if rows:
        yield _parsed(layout, header, lines, rows)


def _parsed(layout: _Layout, header: Header, lines: list[int], rows: list[list[str]]) -> Rows:
    y = None
    if layout.label is not None:
        words = [cells.pop(layout.label).strip() for cells in rows]
        y = np.array(words)
        if header.y_dtype is not None and header.y_dtype.kind != "U":
            y = y.astype(np.float64).astype(header.y_dtype)
    try:
        values = np.array(rows, np.float64)
    except ValueError:
        values = None
    if values is not None:
        with np.errstate(over="ignore"):
            X = values.astype(header.dtype)
        if np.isfinite(X).all():
            return Rows(X, y)
    raise _bad_cell(layout, header.dtype, lines, rows)


def _bad_cell(layout: _Layout, dtype: np.dtype, lines: list[int], rows: list[list[str]]) -> ValueError:
    """Return the error that names the first cell that is not a finite number."""
    for line, cells in zip(lines, rows, strict=True):
        for k, cell in enumerate(cells):
            value = _number(cell)
            if value is None or abs(value) > float(np.finfo(dtype).max) or math.isnan(value):
                position = k + (layout.label is not None and k >= layout.label)
                return ValueError(
                    f"{layout.path}, line {line}, {layout.column(position)}: {cell!r} is not a finite {dtype} number."
                )
    return ValueError(f"{layout.path}, lines {lines[0]} to {lines[-1]}: a cell is not a number.")
