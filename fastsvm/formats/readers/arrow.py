"""Tables in Parquet, Feather and Arrow files, read batch by batch. Needs pyarrow: `pip install 'fastsvm[arrow]'`.

A folder of such files is one table, whose parts follow each other by the numbers in their names. Folders in it that are
named `column=value` add that column to their parts, as Hive writes them. A column of lists, such as embeddings, becomes
a column for each place.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import numpy as np

from fastsvm.formats.readers.stream import Header, Options, Rows, Stream
from fastsvm.formats.readers.table_columns import TableColumns, choose_columns

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = {".parquet", ".pq", ".feather", ".arrow", ".ipc"}
_WORDS = re.compile(r"(\d+)")
_PARQUET, _FILE, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def recognises(path: Path) -> bool:
    """Return whether a file, or the first one of a folder, begins as Parquet, Feather or Arrow files do."""
    if path.is_dir():
        parts = _parts(path)
        return bool(parts) and recognises(parts[0])
    with open(path, "rb") as stream:
        return stream.read(8).startswith((_PARQUET, _FILE, _STREAM))


class _Table(NamedTuple):
    """A table: its schema, its number of rows if known, and `batches(n)`, which reads at most n rows at a time."""

    schema: "pa.Schema"
    n_rows: int | None
    batches: Callable[[int], Iterator["pa.RecordBatch"]]


def _parts(folder: Path) -> list[Path]:
    """Return the files of a folder; other programs mark what holds no rows by a dot or a line before the name."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"]
    files = [path for path in files if all("=" in name for name in path.relative_to(folder).parts[:-1])]
    files = [path for path in files if _SUFFIXES & set(path.suffixes)] or files
    words = {path: _WORDS.split(str(path.relative_to(folder))) for path in files}
    return sorted(files, key=lambda path: [int(word) if word.isdecimal() else word for word in words[path]])


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Open a table and yield its rows."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ValueError(f"Reading {path} needs pyarrow. Install it with: pip install 'fastsvm[arrow]'") from error
    with ExitStack() as files, _named(path):
        table = _opened(path, files)
        names = tuple(table.schema.names)
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
        index = [name for name in index if isinstance(name, str) and name in names]  # others only count the rows
        notes: tuple[str, ...] = ()
        if len(index) > 1:
            raise ValueError(f"{path} has an index of {len(index)} columns. Store it after DataFrame.reset_index().")
        if index and options.id is None:
            options = options._replace(id=names.index(index[0]))  # its name may look like a position
            notes = (f"The index of the data frame, {index[0]}, identifies the rows.",)
        columns = choose_columns(names, len(names), options, path)
        types = [table.schema.field(k).type for k in range(len(names))]
        step = options.rows(8 * len(names))
        if columns.label is not None and options.model_features is not None:
            n_missing, n_rows = _count_missing(path, columns.label, step)
            columns = columns.without_labels(n_missing, n_rows) if n_missing else columns
        for k in (*columns.features, *(() if columns.weight is None else (columns.weight,))):
            if not _is_number(types[k]):
                raise ValueError(
                    f"{path}, {columns.title(k)}: {types[k]} is not a type of numbers. Encode or remove it."
                )
        in_bytes = all(pa.types.is_uint8(types[k]) or pa.types.is_boolean(types[k]) for k in columns.features)
        dtype = options.dtype or np.dtype(np.uint8 if in_bytes else np.float32)
        header = columns.header(dtype, _stored_type(types[columns.label or 0]), table.n_rows, notes)
        yield Stream(header, _blocks(table.batches(step), header, columns, path))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the name of the file to errors of pyarrow."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # an error of the disk, not of the content
            raise
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is truncated or damaged: {error}.") from error


def _opened(path: Path, files: ExitStack) -> _Table:
    """Open a table, with a column for each place of its lists."""
    table = _of_parts(path) if path.is_dir() else _of_file(path, files)
    if not any(map(_is_list, table.schema.types)):
        return table
    import pyarrow as pa

    with ExitStack() as more:  # lists of any length have that of the first row
        first = next((_of_parts(path) if path.is_dir() else _of_file(path, more)).batches(1), None)
    widths = [0 if first is None or not _is_list(column.type) else len(column[0]) for column in first or ()]
    fields: list[pa.Field] = []
    for field, width in zip(table.schema, widths, strict=True):
        names = [f"{field.name}_{k}" for k in range(width)]
        fields += [pa.field(name, field.type.value_type) for name in names] if _is_list(field.type) else [field]
    schema = pa.schema(fields)
    return _Table(
        schema,
        table.n_rows,
        lambda n: (_spread(batch, widths, schema, path) for batch in table.batches(max(1, n // max(1, *widths)))),
    )


def _is_list(kind: "pa.DataType") -> bool:
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and _is_number(kind.value_type)


def _spread(batch: "pa.RecordBatch", widths: list[int], schema: "pa.Schema", path: Path) -> "pa.RecordBatch":
    """Return a batch with a column for each place of its lists, which must have the same lengths in all rows."""
    import pyarrow as pa

    columns: list[pa.Array] = []
    for name, column, width in zip(batch.schema.names, batch.columns, widths, strict=True):
        if not _is_list(column.type):
            columns.append(column)
            continue
        values = column.flatten()
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if column.null_count or (lengths != width).any():
            raise ValueError(f"{path}, column {name}: not all lists have {width} values, as the one of the first row.")
        table = values.to_numpy(zero_copy_only=False).reshape(batch.num_rows, width)
        columns += [pa.array(np.ascontiguousarray(table[:, k]), column.type.value_type) for k in range(width)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_file(path: Path, files: ExitStack) -> _Table:
    from pyarrow import ipc, memory_map, parquet

    with open(path, "rb") as stream:
        start = stream.read(8)
    if start.startswith(_PARQUET):
        table = files.enter_context(parquet.ParquetFile(path, memory_map=True))
        return _Table(table.schema_arrow, table.metadata.num_rows, lambda n: table.iter_batches(batch_size=n))
    source = files.enter_context(memory_map(str(path)))
    if start.startswith(_FILE):
        reader = ipc.open_file(source)
        batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
    else:
        reader = ipc.open_stream(source)
        batches = iter(reader)

    def pieces(most: int) -> Iterator["pa.RecordBatch"]:
        return (batch.slice(start, most) for batch in batches for start in range(0, batch.num_rows, most))

    return _Table(reader.schema, None, pieces)


def _of_parts(folder: Path) -> _Table:
    """Return the table of the files in a folder, of which one is open at a time."""
    paths, schemas = _parts(folder), []
    n_rows: int | None = 0
    if not paths:
        raise ValueError(f"{folder} is a folder without files. Name the folder in which the parts of the table are.")
    for path in paths:
        if not recognises(path):
            raise ValueError(f"{path} is no Parquet, Feather or Arrow file, as all parts of a table are.")
        with ExitStack() as files:
            part = _part(path, folder, files)
            schemas.append(part.schema)
            n_rows = None if n_rows is None or part.n_rows is None else n_rows + part.n_rows
        if not schemas[-1].equals(schemas[0]):
            raise ValueError(
                f"{path} has other columns, or other types, than {paths[0]}, another part of the same table. It has: "
                f"{_columns_of(schemas[-1])}. That has: {_columns_of(schemas[0])}."
            )

    def batches(n: int) -> Iterator["pa.RecordBatch"]:
        for path in paths:
            with ExitStack() as files:
                yield from _part(path, folder, files).batches(n)

    return _Table(schemas[0], n_rows, batches)


def _part(path: Path, folder: Path, files: ExitStack) -> _Table:
    """Return a part of a table, with the columns that the folders on its way name."""
    import pyarrow as pa

    table = _of_file(path, files)
    words = [name.split("=", 1) for name in path.relative_to(folder).parts[:-1]]
    values = [(name, int(word) if word.isdecimal() else unquote(word)) for name, word in words]
    if not values:
        return table
    schema = table.schema
    for name, value in values:
        schema = schema.append(pa.field(name, pa.int64() if isinstance(value, int) else pa.string()))

    def batches(n: int) -> Iterator["pa.RecordBatch"]:
        for batch in table.batches(n):
            more = [pa.repeat(value, batch.num_rows) for _, value in values]
            more = [one.cast(schema.field(name).type) for one, (name, _) in zip(more, values, strict=True)]
            yield pa.RecordBatch.from_arrays([*batch.columns, *more], schema=schema)

    return _Table(schema, table.n_rows, batches)


def _columns_of(schema: "pa.Schema") -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _count_missing(path: Path, column: int, step: int) -> tuple[int, int]:
    """Return how many rows have no value in a column, and how many rows there are."""
    n_missing = n_rows = 0
    with ExitStack() as files:
        for batch in _opened(path, files).batches(step):
            n_missing += batch.column(column).is_null(nan_is_null=True).true_count
            n_rows += batch.num_rows
    return n_missing, n_rows


def _is_number(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def _stored_type(kind: "pa.DataType") -> np.dtype:
    """Return the type in which labels or identifiers are stored: categories are those of their values."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_integer(kind) or types.is_boolean(kind):
        return np.dtype(np.int64)
    return np.dtype(np.float64) if _is_number(kind) else np.dtype(np.str_)


def _blocks(batches: Iterator["pa.RecordBatch"], header: Header, columns: TableColumns, path: Path) -> Iterator[Rows]:
    first = 0
    for batch in batches:
        yield columns.rows(batch.num_rows, header, partial(_values, batch, columns, path, first), path, first)
        first += batch.num_rows


def _values(
    batch: "pa.RecordBatch", columns: TableColumns, path: Path, first: int, k: int, dtype: np.dtype | None
) -> np.ndarray:
    """Return the values of a column as an array, which becomes one of a type; for None, in that of identifiers."""
    from pyarrow import types

    column = batch.column(k)
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{path}, {columns.title(k)}: row {row} has no value. Impute or remove missing values first.")
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    values = column.to_numpy(zero_copy_only=False)
    return values if dtype is not None else values.astype(_stored_type(column.type))
