"""Parquet, Feather and Arrow tables."""

import sys

import h5py
import numpy as np
import pandas as pd
import pytest

from fastsvm.formats import convert, recognise
from fastsvm.sources import open_hdf5

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, ipc, parquet  # noqa: E402

N = 300


def table(**more):
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=N).astype(np.float32), "b": rng.integers(0, 9, N), "kind": rng.integers(0, 3, N)}
    return pa.table(columns | more)


def write_parquet(found, path):
    parquet.write_table(found, path, row_group_size=70)


def write_file(found, path):
    feather.write_feather(found, str(path), compression="lz4", chunksize=70)


def write_stream(found, path):
    with ipc.new_stream(str(path), found.schema) as stream:
        stream.write_table(found, max_chunksize=70)


FORMS = [write_parquet, write_file, write_stream]


@pytest.mark.parametrize("write", FORMS)
@pytest.mark.parametrize("memory", [1, 1 << 28])
def test_rows_labels_and_names(write, memory, tmp_path):
    found = table()
    write(found, tmp_path / "rows")
    assert recognise(tmp_path / "rows") == "arrow"
    summary = convert(tmp_path / "rows", tmp_path / "rows.h5", shuffle=False, memory=memory)
    assert summary.labels == "column 3 (kind), the last: 3 classes" and summary.dtype == np.float32
    with open_hdf5(tmp_path / "rows.h5") as data:
        wanted = np.stack([found["a"].to_numpy(), found["b"].to_numpy()], axis=1).astype(np.float32)
        np.testing.assert_array_equal(data.X.read(0, N).values, wanted)
        np.testing.assert_array_equal(data.y, found["kind"].to_numpy())
        assert data.y.dtype == np.int64 and data.feature_names.tolist() == ["a", "b"]


@pytest.mark.parametrize("write", FORMS)
def test_categories_words_and_identifiers(write, tmp_path):
    words = np.array(["ant", "bee", "Käfer"])[np.arange(N) % 3]
    found = table(kind=pa.array(words).dictionary_encode(), name=pa.array([f"row {k}" for k in range(N)]))
    write(found, tmp_path / "rows")
    summary = convert(tmp_path / "rows", tmp_path / "rows.h5", label="kind", id="name", shuffle=False)
    assert summary.n_features == 2 and summary.n_classes == 3
    with open_hdf5(tmp_path / "rows.h5") as data:
        assert data.y.tolist() == words.tolist() and data.ids[7] == "row 7"


def test_types_of_values(tmp_path):
    flags, octets = pa.array(np.arange(N) % 2 == 0), pa.array(np.arange(N) % 256, pa.uint8())
    for columns, dtype in (
        ({"a": flags, "b": octets}, np.uint8),
        ({"a": octets, "b": pa.array(np.arange(N) / 4)}, np.float32),
        ({"a": pa.array(np.arange(N) / 4).cast(pa.decimal128(10, 2)), "b": octets}, np.float32),
    ):
        write_parquet(pa.table(columns), tmp_path / "rows")
        summary = convert(tmp_path / "rows", tmp_path / "rows.h5", label=False, shuffle=False)
        assert summary.dtype == dtype and summary.n_classes is None
        with open_hdf5(tmp_path / "rows.h5") as data:
            wanted = np.stack([np.asarray(column).astype(float) for column in columns.values()], axis=1)
            np.testing.assert_array_equal(data.X.read(0, N).values, wanted)
    for labels, kind in ((pa.array(np.arange(N) / 4), "f"), (flags, "i")):
        write_parquet(pa.table({"a": octets, "y": labels}), tmp_path / "rows")
        convert(tmp_path / "rows", tmp_path / "rows.h5", dtype="float64")
        with open_hdf5(tmp_path / "rows.h5") as data:
            assert data.y.dtype.kind == kind and data.X.dtype == np.float64


@pytest.mark.parametrize("name", [None, "name"])
def test_the_index_of_a_data_frame_identifies_the_rows(name, tmp_path):
    frame = table().to_pandas()
    frame.index = pd.Index([f"row {k}" for k in range(N)], name=name)
    frame.to_parquet(tmp_path / "rows")
    summary = convert(tmp_path / "rows", tmp_path / "rows.h5", shuffle=False)
    assert summary.n_features == 2 and summary.labels.startswith("column 3 (kind), the last")
    assert summary.notes == (f"The index of the data frame, {name or '__index_level_0__'}, identifies the rows.",)
    with open_hdf5(tmp_path / "rows.h5") as data:
        assert data.ids.tolist() == frame.index.tolist()


def test_other_indices(tmp_path):
    frame = table().to_pandas()
    frame.iloc[::2].to_parquet(tmp_path / "rows")  # it counts
    assert convert(tmp_path / "rows", tmp_path / "rows.h5").notes == ()
    frame.set_index(["a", "b"]).to_parquet(tmp_path / "rows")
    with pytest.raises(ValueError, match="an index of 2 columns"):
        convert(tmp_path / "rows", tmp_path / "rows.h5")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x"] * N}, r"column 1 \(a\): string is not a type of numbers"),
        ({"b": [1.5] * 100 + [None] * 200}, r"column 2 \(b\): row 100 has no value"),
        ({"kind": [1] * 250 + [None] * 50}, r"column 3 \(kind\): row 250 has no value"),
        ({"kind": [0.5] * 250 + [float("inf")] * 50}, "the label of row 250 is not a finite number"),
        ({"b": [1.0] * 130 + [float("nan")] * 170}, "row 130, column 1 is nan"),
        ({"a": [1e300] * N}, "row 0, column 0 is inf"),
        ({"kind": ["a\0b"] * N}, "the label of row 0 contains NUL"),
    ],
)
@pytest.mark.parametrize("write", FORMS)
def test_values_that_cannot_be_used(write, columns, message, tmp_path):
    write(table(**{name: pa.array(values) for name, values in columns.items()}), tmp_path / "rows")
    with pytest.raises(ValueError, match=message) as error:
        convert(tmp_path / "rows", tmp_path / "rows.h5", shuffle=False)
    assert str(tmp_path / "rows") in str(error.value) and not (tmp_path / "rows.h5").exists()


@pytest.mark.parametrize("write", FORMS)
def test_damaged_files(write, tmp_path):
    write(table(), tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for k in range(8, len(content), max(1, len(content) // 40)):
        (tmp_path / "rows").write_bytes(content[:k])
        try:
            summary = convert(tmp_path / "rows", tmp_path / "rows.h5")
        except (ValueError, OSError) as error:
            assert str(tmp_path / "rows") in str(error)
        else:  # a stream may end after any batch
            assert write is write_stream and summary.n_samples < N


def test_without_pyarrow(tmp_path, monkeypatch):
    write_parquet(table(), tmp_path / "rows")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"needs pyarrow. Install it with: pip install 'fastsvm\[arrow\]'"):
        convert(tmp_path / "rows", tmp_path / "rows.h5")


def test_values_that_float32_would_merge_are_stored_in_float64(tmp_path):
    times = 1_700_000_000 + 20 * np.arange(N)
    write_parquet(pa.table({"time": times, "kind": np.arange(N) % 2}), tmp_path / "rows")
    summary = convert(tmp_path / "rows", tmp_path / "rows.h5", shuffle=False)
    assert summary.dtype == np.float64 and "feature 0 (time)" in summary.notes[-1]
    with open_hdf5(tmp_path / "rows.h5") as data:
        np.testing.assert_array_equal(data.X.read(0, N).values[:, 0], times)


def test_an_index_whose_name_is_a_number(tmp_path):
    frame = pd.DataFrame({"0": [0.5, 1.5], "2": [2.5, 3.5], "y": [0, 1]}, index=pd.Index([100, 101], name="1"))
    frame.to_parquet(tmp_path / "rows.parquet")
    with open_hdf5(convert(tmp_path / "rows.parquet", tmp_path / "rows.h5", shuffle=False).path) as data:
        assert list(data.feature_names) == ["0", "2"]
        assert data.X.read(0, 2).values.tolist() == [[0.5, 2.5], [1.5, 3.5]]
    with h5py.File(tmp_path / "rows.h5") as file:
        assert file["id"][:].tolist() == [100, 101]


@pytest.mark.parametrize("write", FORMS)
def test_a_folder_of_parts_is_one_table(write, tmp_path):
    found, folder = table(), tmp_path / "parts"
    folder.mkdir()
    for k in range(12):  # part.10 is after part.9
        write(found.slice(25 * k, 25), folder / f"part.{k}.parquet")
    for name in ("_SUCCESS", ".part.0.crc", "README.txt"):
        (folder / name).write_text("no rows")
    assert recognise(folder) == "arrow"
    summary = convert(folder, tmp_path / "rows.h5", shuffle=False, label="kind")
    assert (summary.n_samples, summary.n_features) == (N, 2)
    with open_hdf5(tmp_path / "rows.h5") as data:
        np.testing.assert_array_equal(data.X.read(0, N).values[:, 0], found["a"].to_numpy())
    write(table(kind=pa.array(np.arange(N) / 2)), folder / "part.99.parquet")
    with pytest.raises(ValueError, match=r"part\.99\.parquet has other columns, or other types, than .*part\.0"):
        convert(folder, tmp_path / "rows.h5")


def test_folders_that_are_no_tables(tmp_path):
    with pytest.raises(ValueError, match="is a folder without files"):
        convert(tmp_path, tmp_path / "rows.h5", format="arrow")
    (tmp_path / "a.parquet").write_text("text")
    with pytest.raises(ValueError, match="is no Parquet, Feather or Arrow file"):
        convert(tmp_path, tmp_path / "rows.h5", format="arrow")


@pytest.mark.parametrize("write", FORMS)
def test_few_rows_take_little_room(write, tmp_path):
    write(table(name=pa.array([f"row {k}" for k in range(N)])).slice(0, 40), tmp_path / "rows")
    assert convert(tmp_path / "rows", tmp_path / "rows.h5", label="kind", id="name").bytes < 30_000


@pytest.mark.parametrize("write", FORMS)
@pytest.mark.parametrize("labels", [pa.nulls(N), pa.array([None] + [1.5] * (N - 1)), pa.array([np.nan] * N)])
def test_labels_of_rows_to_predict_may_be_missing(write, labels, tmp_path):
    write(table(kind=labels), tmp_path / "rows")
    names = {"feature_names": ("a", "b"), "model_features": 2, "model_label": "kind"}
    summary = convert(tmp_path / "rows", tmp_path / "rows.h5", **names)
    assert summary.labels.startswith("none, column 3 (kind) has no value in") and summary.n_features == 2


def test_weights_of_rows(tmp_path):
    write_parquet(table(w=pa.array(np.arange(N) / 8)), tmp_path / "rows")
    convert(tmp_path / "rows", tmp_path / "rows.h5", sample_weight="w", shuffle=False)
    with open_hdf5(tmp_path / "rows.h5") as data:
        np.testing.assert_array_equal(data.sample_weight, np.arange(N) / 8)
        assert data.shape == (N, 2) and data.X.origin.label == "kind"
    write_parquet(table(w=pa.array(1.0 - np.arange(N))), tmp_path / "negative")
    with pytest.raises(ValueError, match=r"\(w\): -1.0 in row 2 is not a weight"):
        convert(tmp_path / "negative", tmp_path / "negative.h5", sample_weight="w")


def test_partitions_of_hive_are_columns(tmp_path):
    for kind in ("cat", "dog"):
        for year in (2001, 2002):
            folder = tmp_path / "animals" / f"kind={kind}" / f"year={year}"
            folder.mkdir(parents=True)
            parquet.write_table(pa.table({"length": [float(year), len(kind)]}), folder / "part-0.parquet")
    summary = convert(tmp_path / "animals", tmp_path / "animals.h5", label="kind", shuffle=False)
    assert summary.n_samples == 8
    with open_hdf5(tmp_path / "animals.h5") as data:
        assert data.feature_names.tolist() == ["length", "year"]
        assert data.y.tolist() == ["cat"] * 4 + ["dog"] * 4
        rows = data.X.in_memory().block.user_array()
        np.testing.assert_array_equal(rows[:, 1], [2001, 2001, 2002, 2002] * 2)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.float32())])
def test_lists_become_features(kind, tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    table = pa.table({"word": pa.array(list(values), kind), "length": [1.0, 2, 3, 4], "label": list("abab")})
    parquet.write_table(table, tmp_path / "words.parquet")
    convert(tmp_path / "words.parquet", tmp_path / "words.h5", shuffle=False)
    with open_hdf5(tmp_path / "words.h5") as data:
        assert data.feature_names.tolist() == ["word_0", "word_1", "word_2", "length"]
        np.testing.assert_array_equal(data.X.in_memory().block.user_array()[:, :3], values)


def test_lists_of_different_lengths_are_refused(tmp_path):
    table = pa.table({"word": [[1.0, 2.0], [1.0]], "label": ["a", "b"]})
    parquet.write_table(table, tmp_path / "words.parquet")
    with pytest.raises(ValueError, match="column word: not all lists have 2 values"):
        convert(tmp_path / "words.parquet", tmp_path / "words.h5")
