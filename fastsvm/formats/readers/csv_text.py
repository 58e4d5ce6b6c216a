"""Tables of numbers as text, with one row per line. One column may hold labels, and another may identify the rows."""

import csv
import io
import math
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastsvm.formats.readers.stream import Header, Lines, Options, Rows, Stream, head, opened
from fastsvm.formats.readers.table_columns import TableColumns, choose_columns, is_name
from fastsvm.tuning import current_tuning

_DELIMITERS = "\t;,|"
_WHOLE = re.compile(r"[-+]?[0-9]+")
_CELL_BYTES = 64  # A cell takes so many bytes: a short str and the pointer to it.
# A column that counts so many rows is an index, and a first line that counts so many columns has names.
_LEAST_COUNTED = 3
_MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}  # cells without a value, in lower case
_KINDS = (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.str_))


class _Layout(NamedTuple):
    """Layout of the cells. `longest` bounds the length of a row."""

    path: Path
    delimiter: str
    has_header: bool
    width: int
    columns: TableColumns
    longest: int


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
    share = current_tuning().storage.block_share  # cells take more than their text
    layout = _layout(path, options, options.memory // share)
    counts = _first_pass(layout, may_be_empty=options.model_features is not None)
    if counts.n_unlabelled:
        layout = layout._replace(columns=layout.columns.without_labels(counts.n_unlabelled, counts.n_samples))
    columns = layout.columns
    notes: tuple[str, ...] = ()
    if counts.has_index:
        index = repr(columns.names[0]) if columns.names and columns.names[0] else 0
        what = f"{columns.title(0)} counts the rows and is used as a feature"
        notes = (f"{what}. If it is an index, pass id={index}.",)
    header = columns.header(options.dtype or np.dtype(np.float32), counts.y_dtype, counts.n_samples, notes)
    if columns.names is not None and all(map(str.isdecimal, columns.names)):
        counted = f"The first line ({', '.join(columns.names[:3])}, ...) counts the columns: it is read as their names."
        header = header._replace(notes=(*header.notes, counted))
    yield Stream(header, _blocks(layout, header, counts.id_dtype, options.rows(layout.width * _CELL_BYTES)))


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
    if layout.has_header:
        next(rows)
    for line, cells in rows:
        if len(cells) != layout.width:
            raise ValueError(
                f"{layout.path}, line {line} has {len(cells)} cells, the first line has {layout.width}; the "
                "file is truncated or damaged there."
            )
        yield line, cells


def _layout(path: Path, options: Options, longest: int) -> _Layout:
    delimiter = _delimiter(path, longest)
    rows = _cells(path, delimiter, longest)
    _, first = next(rows, (0, []))
    _, second = next(rows, (0, None))
    rows.close()
    if not first:
        raise ValueError(f"{path} has only blank lines.")
    names = tuple(map(str.strip, first))
    has_header = _has_header(names, second, options)
    columns = choose_columns(names if has_header else None, len(first), options, path)
    return _Layout(path, delimiter, has_header, len(first), columns, longest)


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


def _has_header(first: tuple[str, ...], second: list[str] | None, options: Options) -> bool:
    """Return whether the first line names the columns: as an option says, by counting them, or without numbers."""
    named = options.label, options.id, options.sample_weight
    if any(map(is_name, named)) or set(options.feature_names or ()) & set(first):
        return True
    if second is not None and _is_numbered(first):
        return True
    label = len(first) - 1 if options.label in (None, False) else int(str(options.label))
    label = label % len(first) if -len(first) <= label < len(first) else len(first) - 1
    features = [cell for k, cell in enumerate(first) if k != label or options.label is False]
    if all(_number(cell) is None for cell in first) and any(features):
        return True
    # If columns are named 0, 1, 2, ..., only the name of the label is a word above a number.
    if options.label is False or second is None or len(second) != len(first):
        return False
    return _number(first[label]) is None and _number(second[label]) is not None


def _is_numbered(first: tuple[str, ...]) -> bool:
    """Return whether a line is 0, 1, 2, ..., perhaps after an empty cell above an index, and perhaps before names."""
    cells = first[1:] if first[0] == "" else first
    count = next((k for k, cell in enumerate(cells) if cell != str(k)), len(cells))
    rest = cells[count:]
    if not rest:
        return count >= _LEAST_COUNTED
    return count > 0 and all(cell and _number(cell) is None for cell in rest)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


class _Counts(NamedTuple):
    """What the first pass finds."""

    n_samples: int
    y_dtype: np.dtype
    id_dtype: np.dtype
    has_index: bool  # The first column is a feature that counts the rows.
    n_unlabelled: int  # So many rows have no label.


def _first_pass(layout: _Layout, may_be_empty: bool) -> _Counts:
    """Return the number of rows and the types that hold all labels and identifiers."""
    columns, n_samples, kind, id_kind, n_unlabelled = layout.columns, 0, 0, 0, 0
    counts, first = 0 in columns.features, 0.0
    for line, cells in _rows(layout):
        if columns.label is not None:
            cell = cells[columns.label].strip()
            if may_be_empty and cell.lower() in ("", "nan"):  # other words may be classes
                n_unlabelled += 1
            else:
                kind = max(kind, _kind(cell, layout, line))
        if columns.id is not None:
            cell = cells[columns.id].strip()
            is_int = cell.isdecimal() and cell.isascii() and len(cell) < 19 and str(int(cell)) == cell
            id_kind = id_kind if is_int else 2  # a text, where a number would lose a digit
        if counts:
            value = _number(cells[0])
            first = value if n_samples == 0 and value is not None else first
            counts = value is not None and first in (0, 1) and value == first + n_samples
        n_samples += 1
    if n_samples == 0:
        raise ValueError(f"{layout.path} holds no rows below its first line.")
    return _Counts(n_samples, _KINDS[kind], _KINDS[id_kind], counts and n_samples >= _LEAST_COUNTED, n_unlabelled)


def _kind(cell: str, layout: _Layout, line: int) -> int:
    """Return the place in `_KINDS` of the type that holds a label."""
    value = _number(cell)
    if not cell or (value is not None and not math.isfinite(value)):
        where = f"{layout.path}, line {line}, {layout.columns.title(layout.columns.label or 0)}"
        raise ValueError(f"{where}: {cell!r} is not a label; a label is a finite number or a word.")
    if value is None:
        return 2
    if _WHOLE.fullmatch(cell):
        return 0 if abs(int(cell)) < 2**63 else 2  # numbers without all their digits would merge classes
    return 0 if value.is_integer() and abs(value) < 2**53 else 1


def _blocks(layout: _Layout, header: Header, id_dtype: np.dtype, step: int) -> Iterator[Rows]:
    lines: list[int] = []
    rows: list[list[str]] = []
    first = 0

    def parsed() -> Rows:
        table = list(zip(*rows, strict=True))

        def values(k: int, dtype: np.dtype | None) -> np.ndarray:
            return _converted(table[k], dtype or id_dtype, layout, k, lines)

        return layout.columns.rows(len(rows), header, values, layout.path, first)

    for line, cells in _rows(layout):
        lines.append(line)
        rows.append(cells)
        if len(rows) == step:
            yield parsed()
            first += step
            lines.clear()
            rows.clear()
    if rows:
        yield parsed()


def _converted(cells: tuple[str, ...], dtype: np.dtype, layout: _Layout, k: int, lines: list[int]) -> np.ndarray:
    """Return the cells of a column in a type."""
    if dtype.kind == "U":
        return np.array(list(map(str.strip, cells)))
    if dtype.kind == "i":  # float64 would merge large whole numbers
        whole = (int(cell) if _WHOLE.fullmatch(cell) else int(float(cell)) for cell in map(str.strip, cells))
        return np.array(list(whole), dtype)
    with suppress(ValueError), np.errstate(over="ignore"):
        values = np.fromiter(map(float, cells), np.float64, len(cells)).astype(dtype)
        is_good = np.isfinite(values).all() and not (k == layout.columns.weight and (values < 0).any())
        if is_good and "_" not in "".join(cells):  # which is a digit to Python, and text to others
            return values
    raise _bad_cell(cells, dtype, layout, k, lines)


def _bad_cell(cells: tuple[str, ...], dtype: np.dtype, layout: _Layout, k: int, lines: list[int]) -> ValueError:
    """Return the error that names the first cell of a column that is not a finite number, or not a weight."""
    for line, cell in zip(lines, cells, strict=True):
        value, where = _number(cell), f"{layout.path}, line {line}, {layout.columns.title(k)}"
        if k == layout.columns.weight and (value is None or not 0 <= value < math.inf):
            return ValueError(f"{where}: {cell!r} is not a weight; a weight is a finite number of at least 0.")
        if value is None or abs(value) > float(np.finfo(dtype).max) or math.isnan(value):
            if cell.strip().lower() in _MISSING:
                return ValueError(f"{where}: {cell!r} is a missing value. Impute or remove missing values first.")
            if value is not None:
                return ValueError(f"{where}: {cell!r} is not a finite {dtype} number.")
            return ValueError(
                f"{where}: {cell!r} is not a number. Encode the words of a feature as numbers first. If the column "
                "holds the labels, pass label=, and if it identifies the rows, id=; the labels are taken from: "
                f"{'none' if layout.columns.label is None else layout.columns.why}."
            )
    return ValueError(f"{layout.path}, lines {lines[0]} to {lines[-1]}: a cell is not a number.")
