"""svmlight or LIBSVM text: each line is a row, a label and index:value pairs.

The file is read twice. The first pass parses only the first and the last index of each line. They give the number of
features and whether indices start at 0 or 1, for the whole file rather than for each block.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastsvm.formats.readers.stream import Header, Lines, Options, Rows, Stream, head, opened
from fastsvm.tuning import current_tuning

_LINE = re.compile(rb"[-+.\w,]+(\s+(qid|\d+):\S+)*(\s+\d+:?)?\s*")  # the last pair may be cut: that is an error, later
_LARGEST = np.iinfo(np.int32).max
_ASSUMED = "No index is 0, so the first feature has the index 1. If indices count from 0, pass first_index=0."
_SUFFIXES = {".svm", ".svmlight", ".libsvm"}


def recognises(path: Path) -> bool:
    """Return whether the first lines of a file are labels and pairs, or its name has the suffix of the format."""
    if path.is_dir():
        return False
    if _SUFFIXES & set(path.suffixes):
        return True
    lines = head(path, 1 << 16).split(b"\n")
    rows = [row for row in map(_content, lines[:20] if len(lines) > 20 else lines) if row]
    whole = rows[:-1] if 1 < len(rows) == len(lines) else rows  # the last one may be truncated
    return any(b":" in row for row in whole) and all(map(_LINE.fullmatch, whole))


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Read a file in two passes: count its rows, then yield them."""
    counts = _first_pass(path, options)
    first_index, sure = _first_index(counts, options, path)
    largest, wanted = counts.largest + 1 - first_index, options.n_features
    if wanted is not None and wanted < largest:
        raise ValueError(f"{path} has {largest} features, but n_features={wanted} was passed.")
    if (wanted or largest) <= 0:
        raise ValueError(f"{path} holds labels but no features; set n_features= if that is intended.")
    header = Header(
        max(wanted or largest, options.least_features or 0),
        options.dtype or np.dtype(np.float32),
        np.dtype(np.int64 if counts.whole_labels else np.float64),
        sparse=not options.dense,
        n_samples=counts.n_samples,
        n_values=counts.n_values,
        first_index=first_index,
        first_index_sure=sure,
        notes=() if sure or counts.n_values == 0 else (_ASSUMED,),
    )
    yield Stream(header, _blocks(path, header, options, first_index))


class _Counts(NamedTuple):
    """Results of the first pass. `largest` counts as the file does; `zero` is the first line with the index 0."""

    n_samples: int
    n_values: int
    largest: int
    zero: int | None
    whole_labels: bool


def _first_index(counts: _Counts, options: Options, path: Path) -> tuple[int, bool]:
    """Return the index of the first feature, and whether the file or an option says so."""
    if options.first_index == 1 and counts.zero is not None:
        raise ValueError(f"{path}, line {counts.zero} has the index 0, but first_index=1 was passed.")
    if options.first_index is not None:
        return options.first_index, True
    if counts.zero is not None:
        return 0, True
    if options.model_first_index is not None:
        return options.model_first_index, True
    return 1, counts.largest == options.n_features  # counted from 0, that would be one feature too many


def _content(line: bytes) -> bytes:
    return line.partition(b"#")[0].strip()


def _texts(path: Path, n_bytes: int, memory: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield blocks of whole lines, with the number of the first line."""
    number, taken = 1, 0
    block: list[bytes] = []
    with opened(path) as stream:
        # A parsed line takes more than its text.
        lines: Lines[bytes] = Lines(stream, memory // current_tuning().storage.window_share, path)
        for line in lines:
            lines.taken = 0
            block.append(line)
            taken += len(line)
            if taken >= n_bytes:
                yield number, block
                number, taken, block = number + len(block), 0, []
    if block:
        yield number, block


def _first_pass(path: Path, options: Options) -> _Counts:
    n_samples = n_values = 0
    zero, largest, whole = None, -1, True
    for number, lines in _texts(path, options.block_bytes, options.memory):
        for line, text in enumerate(map(_content, lines), number):
            if text:
                label, first, last = _ends(text, path, line)
                n_samples += 1
                n_values += text.count(b":")
                zero = line if zero is None and first == 0 else zero
                largest = max(largest, last)
                whole = whole and label.is_integer() and abs(label) < 2**53
    if n_samples == 0:
        raise ValueError(f"{path} holds no rows.")
    return _Counts(n_samples, n_values, largest, zero, whole)


def _ends(text: bytes, path: Path, line: int) -> tuple[float, int, int]:
    """Return the label, the first and the last index of a line; without pairs, the indices are 1 and -1."""
    label, _, pairs = text.partition(b" ") if b"\t" not in text else text.replace(b"\t", b" ").partition(b" ")
    if b"," in label:
        raise ValueError(f"{path}, line {line} has several labels; only rows with one each can be converted.")
    if b":" in label:
        raise ValueError(f"{path}, line {line} has no label; put one, such as 0, before the pairs.")
    if pairs.lstrip().startswith(b"qid:"):
        raise ValueError(f"{path}, line {line} has a query number (qid), used for ranking; remove them first.")
    try:
        value = float(label)
        first = int(pairs.partition(b":")[0]) if pairs else 1
        last = int(pairs.rpartition(b" ")[2].partition(b":")[0]) if pairs else -1
    except ValueError as error:
        raise ValueError(f"{path}, line {line} is not a row of svmlight text: {error}.") from None
    if pairs and not 0 <= first <= last < 1 << 53:
        raise ValueError(f"{path}, line {line}: its indices, from {first} to {last}, do not increase from 0 or 1.")
    if last > _LARGEST:
        raise ValueError(f"{path}, line {line}: the index {last} is larger than {_LARGEST}, the last that can be read.")
    if not np.isfinite(value):
        raise ValueError(f"{path}, line {line}: the label {label.decode()} is not finite.")
    return value, first, last


def _blocks(path: Path, header: Header, options: Options, first_index: int) -> Iterator[Rows]:
    n_rows = options.rows(header.n_features * header.dtype.itemsize)
    for number, lines in _texts(path, options.block_bytes // 2, options.memory):
        X, y = _load(lines, header, first_index, path, number)
        y = y.astype(header.y_dtype)
        if header.sparse:
            yield Rows(X, y)
            continue
        for start in range(0, len(y), n_rows):
            yield Rows(X[start : start + n_rows].toarray(), y[start : start + n_rows])


def _load(
    lines: list[bytes], header: Header, first_index: int, path: Path, number: int
) -> tuple[sparse.csr_array, np.ndarray]:
    try:
        X, y = _parse(lines, header, first_index)
    except (ValueError, OverflowError):  # OverflowError: the parser has indices of 32 bits
        raise _bad_line(lines, header, first_index, path, number) from None
    if not np.isfinite(X.data).all():
        at = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, X.indices[at] + first_index
        line = [k for k, text in enumerate(lines, number) if _content(text)][row]
        raise ValueError(f"{path}, line {line}: the value of feature {column} is not a finite {header.dtype} number.")
    return X, y


def _parse(lines: list[bytes], header: Header, first_index: int) -> tuple[sparse.csr_array, np.ndarray]:
    # Imported here because other formats do not need it.
    from sklearn.datasets import load_svmlight_file

    # Indices count from 0 here, because otherwise the parser would decide for each block.
    text, n_columns = io.BytesIO(b"".join(lines)), header.n_features + first_index
    matrix, y = load_svmlight_file(text, n_features=n_columns, dtype=header.dtype, zero_based=True)
    shape = (matrix.shape[0], header.n_features)
    return sparse.csr_array((matrix.data, matrix.indices - first_index, matrix.indptr), shape=shape), y


def _bad_line(lines: list[bytes], header: Header, first_index: int, path: Path, number: int) -> ValueError:
    """Return the error that names the first line that cannot be parsed."""
    for line, text in enumerate(lines, number):
        try:
            _parse([text], header, first_index)
        except OverflowError:
            return ValueError(f"{path}, line {line} has an index larger than {_LARGEST}, the last that can be read.")
        except ValueError as error:
            return ValueError(f"{path}, line {line} is not a row of svmlight text: {error}.")
    return ValueError(f"{path}, lines {number} to {number + len(lines) - 1} cannot be parsed.")
