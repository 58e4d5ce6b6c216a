"""Conversion of a published format to one HDF5 file."""

import os
import pickle
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from scipy import sparse

from fastsvm.files.atomic_file import check_input, check_output, complete, scratch_folder
from fastsvm.formats.readers import FORMATS, formats_with, recognise
from fastsvm.formats.readers.stream import Header, Options, Rows, Stream, stack
from fastsvm.formats.writer import StoredLabels, write
from fastsvm.progress_bar import progress_bar
from fastsvm.tuning import StorageTuning, current_tuning

_EXACT = "exact"
_OURS = "block_bytes", "memory", "scratch"  # options of readers that no user passes
_VISIBLE = 2e-5  # Rounding shows above this share of the range of a feature: some 1e-4 of its standard deviation.
_MOST_FEATURES = 1 << 18  # So many features of sparse rows are watched one by one, with 24 bytes for each.
_BITS = 6  # There are 64 files of rows per level, far fewer than a process may open.
_KEY = "key"  # It names the column of the keys while rows are shuffled.
_SHOWN = "float32 would round {where}, which lies between {low:.10g} and {high:.10g}, by up to {error:.2g}"


class Summary(NamedTuple):
    """Properties of the HDF5 file that `convert` wrote."""

    path: Path
    n_samples: int
    n_features: int
    dtype: np.dtype
    sparse: bool  # X is a CSR group.
    n_classes: int | None  # It is None without labels, with fractions, and with more than 65,536 different labels.
    class_names: tuple[str, ...] | None  # The classes 0, 1, ... have these names.
    bytes: int  # The file has this size.
    labels: str = ""  # It says which column holds labels, why, and their classes or range.
    notes: tuple[str, ...] = ()  # They say what else the user should know.


def convert(
    source: str | Path,
    destination: str | Path,
    *,
    format: str | None = None,
    shuffle: bool = True,
    seed: int = 0,
    memory: int = 256 * 2**20,
    progress: bool = False,
    **options: Any,
) -> Summary:
    r"""Convert a data set, a file or a folder, to an HDF5 file, in bounded memory.

    The write is atomic: the complete file replaces any file of that name. Until then it is in a folder
    `<destination>.*.part` beside it, which is removed at the end, also after an error. Shuffling rows that do not fit
    in `memory` needs disk space for a second copy there, and so do NPZ and compressed IDX. Rows in random order keep
    their number in the source, in the dataset `source_row`, so that the command line writes predictions in the order of
    the source. The order does not depend on `memory`, the approximate bytes of rows in memory, of which at least some
    16 MiB are used.

    `format` is a key of `FORMATS`; by default it is recognised by content and name. Other options apply to some
    formats:

    - split: "train" or "test", which part of a folder or archive to read (CIFAR-10, IDX).
    - dense: whether to store svmlight text as a dense matrix; by default it is stored as CSR.
    - label: where the labels are. CSV and Arrow: name or position (from 0) of their column; by default the column named
      label, labels, target, class or y, else the last one. IDX: their file; the one beside the images by default. NPY,
      and sparse matrices in NPZ: their file; none by default. NPZ: name of their array; `y`, or the only one of fitting
      length, by default. False: store no labels.
    - last_label: CSV and Arrow: False if a column does not hold labels for being the last.
    - array: NPZ: name of the array with the rows; by default `X`, or the only one that has two dimensions or more.
    - id: CSV and Arrow: name or position of a column that identifies the rows. It is stored as the dataset `id`, and is
      not a feature. The command line writes it beside the predictions.
    - sample_weight: CSV and Arrow: name or position of the column of the weights of the rows; by default the column of
      that name. It is not a feature.
    - first_index: 0, 1 or "auto", the index of the first feature of svmlight text. By default it is 0 if an index 0 is
      there, else 1, which the notes say. The HDF5 file and models that are fitted to it remember it.
    - n_features: number of features of svmlight text; by default the largest that occurs.
    - model_features: CSV and Arrow: number of features of a model. A table with so many columns has no labels by
      default. Nor has one in which the labels of some rows are missing.
    - model_label, model_id: CSV and Arrow: names of these columns in the table of the fit.
    - strict: CSV and Arrow: whether to refuse columns beside the features of a model and the others that are known.
    - model_first_index: what `first_index` was in the fit, which counts where no index is 0.
    - least_features: number of features of svmlight text, if no larger index occurs.
    - feature_names: CSV and Arrow: names of the columns that are features, in order. By default one other column holds
      the labels, if there is one. Others are left out.
    - dtype: "float32", "float64" or "exact", the type of values from text and tables. By default uint8 for Arrow tables
      of bytes, else float32, or float64 if float32 rounds a feature by more than 2e-5 of its range, which the notes
      say. "exact" is float64 if float32 rounds any value.
    - class_names: names of the classes 0, 1, ...; by default those in the source, if any.

    FileNotFoundError says that there is no such source, or no folder for the destination. ValueError says that an
    option does not apply, or where the source is damaged, truncated, empty or not of the format. OSError says that the
    source cannot be read or the destination cannot be written.

    >>> import os, tempfile
    >>> from fastsvm.formats import convert
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "rows.csv"), "w") as file:
    ...     _ = file.write("length,width,kind\n5.1,3.5,setosa\n6.2,2.9,virginica\n")
    >>> summary = convert(os.path.join(folder, "rows.csv"), os.path.join(folder, "rows.h5"))
    >>> summary.n_samples, summary.n_features, summary.n_classes
    (2, 2, 2)
    """
    source, destination = Path(source), Path(destination)
    chosen = _reader_options(options)
    if isinstance(chosen.label, bool) and chosen.label:
        raise ValueError("label must be a column, a file, an array or False, it is True.")
    check_input(source)
    if source.is_file() and source.stat().st_size == 0:
        raise ValueError(f"{source} is empty.")
    label = chosen.label  # a str may name a column
    check_output(destination, source, Path(label) if isinstance(label, (str, Path)) else source)
    memory = int(memory)
    for name, number, least in (("memory", memory, 1), ("seed", seed, 0), ("n_features", chosen.n_features, 1)):
        if number is not None and number < least:
            raise ValueError(f"{name} must be {'positive' if least else 'at least 0'}, it is {number!r}.")
    format = recognise(source) if format is None else format
    tuning = current_tuning().storage
    most = min(max(memory // tuning.block_share, tuning.run_bytes), tuning.block_bytes)
    chosen = chosen._replace(block_bytes=most, memory=memory)
    _check_options(format, chosen)
    exact = options.get("dtype") == _EXACT

    def written(chosen: Options, notes: tuple[str, ...] = ()) -> Summary:
        room = scratch_folder(destination)
        with room as scratch, _read(source, format, chosen._replace(scratch=scratch), exact) as stream:
            header = stream.header
            _check_rows(header, source, memory, tuning)
            header = header._replace(notes=header.notes + notes, class_names=chosen.class_names or header.class_names)
            blocks: Iterator[Rows] = _storable(stream.blocks, source)
            if shuffle:
                reading = _counted(blocks, header.n_samples, "reading", progress)
                blocks = shuffled(_numbered(reading), seed, scratch, memory * 3 // 4)
            return _write(Stream(header, blocks), destination, scratch, progress)

    try:
        return written(chosen)
    except _TooCoarse as error:
        notes = () if exact else (f"{error}; the values are stored in float64.",)
        return written(chosen._replace(dtype=error.dtype), notes)


@contextmanager
def _read(source: Path, format: str, options: Options, exact: bool) -> Iterator[Stream]:
    """Open a source. Where the type of values is open, they are read in float64 and narrowed to float32."""
    kind = FORMATS[format]
    if options.dtype is not None or "dtype" not in kind.options:
        with kind.read(source, options) as stream:
            yield stream
        return
    if not kind.text:  # the types of its columns may decide, which is known without a pass over the rows
        with kind.read(source, options) as stream:
            if stream.header.dtype != np.float32:
                yield stream
                return
    with kind.read(source, options._replace(dtype=np.dtype(np.float64))) as stream:
        header = stream.header._replace(dtype=np.dtype(np.float32))
        yield Stream(header, _narrowed(stream.blocks, header, exact))


def _write(stream: Stream, destination: Path, scratch: Path, progress: bool) -> Summary:
    header, blocks = stream
    with closing(_counted(blocks, header.n_samples, "writing", progress)) as rows:
        n_samples, labels = write(scratch / "data.h5", header, rows)
    if n_samples == 0:
        raise ValueError("The source holds no rows.")
    complete(scratch / "data.h5", destination)
    return Summary(
        destination,
        n_samples,
        header.n_features,
        header.dtype,
        header.sparse,
        None if labels is None else labels.n_classes,
        header.class_names,
        destination.stat().st_size,
        _label_note(header, labels),
        header.notes,
    )


def _label_note(header: Header, labels: StoredLabels | None) -> str:
    """Return where the labels were found, and how many classes or which range they have."""
    if labels is None or not header.label:
        return header.label
    if labels.n_classes is not None:
        return f"{header.label}: {labels.n_classes} {'class' if labels.n_classes == 1 else 'classes'}"
    low, high = labels.range
    return f"{header.label}: real numbers from {low:g} to {high:g}"


def _numbered(blocks: Iterable[Rows]) -> Iterator[Rows]:
    """Yield the blocks with the number of each row in the source."""
    first = 0
    for block in blocks:
        yield block.with_column("source_row", np.arange(first, first + len(block)))
        first += len(block)


def _storable(blocks: Iterable[Rows], source: Path) -> Iterator[Rows]:
    """Yield the blocks. Raise ValueError for a text that contains NUL, because strings in HDF5 end at NUL."""
    first = 0
    for block in blocks:
        texts = {name: values for name, values in block.columns.items() if values.dtype.kind == "U"}
        if block.y is not None and block.y.dtype.kind == "U":
            texts["label"] = block.y
        for name, values in texts.items():
            for row, text in enumerate(values.tolist(), first):
                if "\0" in text:  # those at the end are padding, which no text of the list has
                    raise ValueError(
                        f"{source} is damaged or is not text: the {name} of row {row} contains NUL, {text!r}."
                    )
        yield block
        first += len(block)


def _counted(blocks: Iterable[Rows], total: int | None, title: str, show: bool) -> Generator[Rows, None, None]:
    with progress_bar(shown=show, total=total, desc=title, unit=" rows", unit_scale=True) as bar:
        for block in blocks:
            yield block
            bar.update(len(block))


def _check_rows(header: Header, source: Path, memory: int, tuning: StorageTuning) -> None:
    """Raise ValueError if a few dense rows do not fit in memory: a row cannot be divided."""
    row_bytes = 0 if header.sparse else header.n_features * header.dtype.itemsize
    if row_bytes > max(memory // tuning.window_share, tuning.block_bytes // 2):
        raise ValueError(
            f"A row of {source} has {header.n_features} features of type {header.dtype}, {row_bytes} bytes; memory="
            f"{memory} holds less than {tuning.window_share} of them: raise memory."
        )


def _reader_options(options: dict[str, Any]) -> Options:
    allowed = [name for name in Options._fields if name not in _OURS]
    if unknown := set(options) - set(allowed):
        raise TypeError(f"convert() has no options {sorted(unknown)}; it has {', '.join(allowed)}.")
    dtype, first_index = (options.get(name) for name in ("dtype", "first_index"))
    if first_index not in (None, "auto", 0, 1):
        raise ValueError(f"first_index must be 0, 1 or 'auto', it is {first_index!r}.")
    kind = None if dtype in (None, _EXACT) else np.dtype(dtype)
    if kind not in (None, np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, it is {kind}.")
    first = None if first_index in (None, "auto") else int(first_index)
    names = {name: tuple(options[name]) for name in ("feature_names", "class_names") if options.get(name) is not None}
    return Options(**options | {"dtype": kind, "first_index": first} | names)


def _check_options(format: str, options: Options) -> None:
    if format not in FORMATS:
        raise ValueError(f"There is no format {format!r}; there are {', '.join(FORMATS)}.")
    if options.split not in (None, "train", "test"):
        raise ValueError(f"split must be 'train' or 'test', it is {options.split!r}.")
    for name in set(Options._fields) - {"class_names", *_OURS} - FORMATS[format].options:
        if getattr(options, name) is not None:
            raise ValueError(f"{name} does not apply to {format}, only to {formats_with(name)}.")


# --- random order ----------------------------------------------------------------------------------------
#
# Each row draws a random 64-bit key, and the rows are sorted by key. Rows that do not fit in memory are first
# distributed to files by the leading bits of their keys; then each file is sorted. Both ways give the same order, which
# depends on the seed alone.


def shuffled(blocks: Iterable[Rows], seed: int, folder: Path, limit: int) -> Iterator[Rows]:
    """Yield the same rows in random order; at most `limit` bytes of them are in memory, others in an empty `folder`."""
    draw = np.random.PCG64(seed).random_raw
    keyed = (block.with_column(_KEY, draw(len(block))) for block in blocks if len(block))
    for block in _in_order(keyed, folder, limit, 64 - _BITS):
        yield replace(block, columns={name: values for name, values in block.columns.items() if name != _KEY})


def _in_order(blocks: Iterator[Rows], folder: Path, limit: int, shift: int) -> Iterator[Rows]:
    """Yield rows by increasing key; `shift` is the position of the bits that choose a file."""
    block_bytes = min(limit // 16, current_tuning().storage.block_bytes)
    held: deque[Rows] = deque()
    size = 0
    for block in blocks:
        held.append(block)
        size += block.nbytes
        # One row cannot be divided. When no bits are left, all keys are equal.
        if size > limit and shift >= 0 and (len(held) > 1 or len(block) > 1):
            break
    else:
        yield from _sorted(list(held), block_bytes)
        return
    drained = (held.popleft() for _ in range(len(held)))
    for path in _deal(chain(drained, blocks), folder, limit, shift):
        with open(path, "rb") as stream:
            yield from _in_order(_joined(_saved(stream), block_bytes), folder, limit, shift - _BITS)
        path.unlink()


def _deal(blocks: Iterable[Rows], folder: Path, limit: int, shift: int) -> list[Path]:
    """Write the rows to files by the bits of their keys above `shift`; return the files in order."""
    streams: dict[int, BinaryIO] = {}
    with ExitStack() as files:
        for block in _joined(blocks, limit // 4):
            home = (block.columns[_KEY] >> np.uint64(shift)) & np.uint64((1 << _BITS) - 1)
            for bucket in np.unique(home).tolist():
                if bucket not in streams:
                    streams[bucket] = files.enter_context(open(folder / f"{shift}-{bucket}", "wb"))
                pickle.dump(block.take(np.flatnonzero(home == bucket)), streams[bucket], protocol=5)
    return [Path(streams[bucket].name) for bucket in sorted(streams)]


def _saved(stream: BinaryIO) -> Iterator[Rows]:
    """Yield the blocks that `_deal` wrote to a folder that belongs to this process."""
    end = os.fstat(stream.fileno()).st_size
    while stream.tell() < end:
        yield pickle.load(stream)


def _joined(blocks: Iterable[Rows], n_bytes: int) -> Iterator[Rows]:
    """Yield the same rows in blocks of at least `n_bytes`; the last one may be smaller."""
    held: list[Rows] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += block.nbytes
        if size >= n_bytes:
            yield stack(held)
            held, size = [], 0
    if held:
        yield stack(held)


def _sorted(blocks: list[Rows], block_bytes: int) -> Iterator[Rows]:
    """Yield the rows of all blocks by increasing key, without a second copy of all rows."""
    if not blocks:
        return
    order = np.argsort(np.concatenate([block.columns[_KEY] for block in blocks]), kind="stable")
    starts = np.cumsum([0] + [len(block) for block in blocks[:-1]])
    step = max(1, block_bytes * len(order) // sum(block.nbytes for block in blocks))
    for first in range(0, len(order), step):
        index = order[first : first + step]
        home = np.searchsorted(starts, index, side="right") - 1
        places = [(k, np.flatnonzero(home == k)) for k in np.unique(home)]
        parts = stack([blocks[k].take(index[at] - starts[k]) for k, at in places])
        yield parts.take(np.argsort(np.concatenate([at for _, at in places])))


# --- the type in which values are stored: float32, unless its rounding would lose what distinguishes the rows


class _TooCoarse(Exception):
    """float32 does not hold the values of a feature, as the message says. The source is read again as `dtype`."""

    def __init__(self, message: str, dtype: type = np.float64) -> None:
        super().__init__(message)
        self.dtype = np.dtype(dtype)


def _narrowed(blocks: Iterator[Rows], header: Header, exact: bool) -> Iterator[Rows]:
    """Yield rows of float64 in float32. _TooCoarse says that it rounds too much, or with `exact` anything at all."""
    watched = not header.sparse or header.n_features <= _MOST_FEATURES
    seen = _Seen(header.n_features if watched and not exact else 0)
    for block in blocks:
        with np.errstate(over="ignore"):
            rounded = block.stored.astype(np.float32)
        error = np.abs(block.stored - rounded)
        if not np.isfinite(rounded).all():
            raise _TooCoarse("float32 does not hold all values", np.float32)  # the reader refuses them by name
        if exact and error.any():
            raise _TooCoarse("float32 rounds some values")
        if watched and not exact:
            seen.add(block.X, error)
        yield block.with_stored(rounded)
    seen.check(header)  # at the end, so that the answer does not depend on the size of the blocks


class _Seen:
    """The range of each feature and its largest error of rounding, over the blocks so far."""

    def __init__(self, n_features: int) -> None:
        self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        self.error = np.zeros(n_features)

    def add(self, X: np.ndarray | sparse.csr_array, error: np.ndarray) -> None:
        if X.shape[0] == 0:
            return
        if isinstance(X, np.ndarray):
            low, high, error = X.min(axis=0), X.max(axis=0), error.max(axis=0)
        else:
            low, high = (np.asarray(extreme.todense()).ravel() for extreme in (X.min(axis=0), X.max(axis=0)))
            by_feature = np.zeros_like(self.error)
            np.maximum.at(by_feature, X.indices, error)
            error = by_feature
        np.minimum(self.low, low, out=self.low)
        np.maximum(self.high, high, out=self.high)
        np.maximum(self.error, error, out=self.error)

    def check(self, header: Header) -> None:
        """Raise _TooCoarse if rounding is visible in some feature. Constant ones distinguish no rows."""
        width = self.high - self.low
        lost = (self.error > _VISIBLE * width) & (width > 0)
        if lost.any():
            k = int(np.argmax(lost))
            names = header.feature_names
            where = f"feature {k}" if names is None else f"feature {k} ({names[k]})"
            raise _TooCoarse(_SHOWN.format(where=where, low=self.low[k], high=self.high[k], error=self.error[k]))
