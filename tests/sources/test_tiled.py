"""Arrays that are stored in tiles are read within the memory, whatever the tiles, and each tile is unpacked once."""

import pickle

import h5py
import numpy as np
import pytest

from fastsvm import SVC, LinearSVC, SGDClassifier
from fastsvm.sources import as_source, is_stored
from fastsvm.sources.hdf5 import HDF5DenseSource
from fastsvm.sources.tiled import ScratchSource

N, D = 6000, 30
VALUES = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
Y = (VALUES[:, 0] > 0).astype(int)
MEMORY = 400_000  # bytes; the values take 720,000


class Sliced:
    """Rows that can be sliced, and nothing else."""

    def __init__(self, values=VALUES, chunks=None):
        self._values, self.shape, self.dtype, self.longest, self.read = values, values.shape, values.dtype, 0, 0
        if chunks is not None:
            self.chunks = chunks

    def __getitem__(self, key):
        found = self._values[key]
        self.longest, self.read = max(self.longest, found.nbytes), self.read + found.nbytes
        return found.tolist() if found.dtype == np.int64 else found


@pytest.fixture
def source_of(tmp_path):
    with h5py.File(tmp_path / "tiled.h5", "w") as file:
        yield lambda chunks, **options: as_source(file.create_dataset("X", data=VALUES, chunks=chunks, **options))


def assert_rows(source):
    np.testing.assert_array_equal(np.concatenate([block.values for _, block in source.blocks()]), VALUES)
    spans = [(5990, 6000), (0, 3), (2999, 3005)]
    np.testing.assert_array_equal(source.read_all(spans).values, np.concatenate([VALUES[a:b] for a, b in spans]))
    np.testing.assert_array_equal(source.rows(np.array([17, 5, 5999])).values, VALUES[[17, 5, 5999]])


@pytest.mark.parametrize("chunks", [(N, 1), (N, 7), (N, D), (N // 2, 4), (50, D)])
def test_parts_of_tiles_that_are_not_packed(chunks, source_of):
    source = source_of(chunks)
    small = source.within(MEMORY)
    assert isinstance(small, HDF5DenseSource) and small.block_rows * D * 4 <= max(MEMORY // 32, 1 << 16)
    assert_rows(source)
    assert_rows(small)


@pytest.mark.parametrize(
    ("chunks", "memory"), [((N, 1), 96_000), ((N, 3), 300_000), ((N // 2, 2), 400_000), ((1000, 4), 1_000_000)]
)
def test_tiles_that_are_packed_are_unpacked_once(chunks, memory, monkeypatch, source_of):
    source, count = source_of(chunks, compression="gzip", shuffle=True), []
    copy = HDF5DenseSource._copy
    monkeypatch.setattr(HDF5DenseSource, "_copy", lambda self, *given: count.append(given[:3]) or copy(self, *given))
    small = source.within(memory)
    assert isinstance(small, ScratchSource) == (chunks[0] > 1000)
    assert_rows(small)
    if isinstance(small, ScratchSource):
        assert max(stop - start for start, stop, _ in count) <= chunks[0]
        assert sum((stop - start) * (last - first) for start, stop, (first, last) in count) == N * D
    else:
        assert small.block_rows == chunks[0]


def test_columns_of_long_tiles_are_read_apart(monkeypatch, source_of, choose):
    """HDF5 takes a thousand times as long for parts of rows that it has to scatter."""
    choose(storage={"piece_bytes": 1000})
    source, widths = source_of((N, 2)), set()
    copy = HDF5DenseSource._copy
    monkeypatch.setattr(
        HDF5DenseSource, "_copy", lambda self, *given: widths.add(given[3].shape[1]) or copy(self, *given)
    )
    assert_rows(source)
    assert widths == {2}


def test_a_tile_that_is_too_large_to_be_unpacked(source_of):
    source = source_of((N, D), compression="gzip")
    with pytest.raises(ValueError, match=r"6,000 x 30 values.*unpacked whole.* 0\.72 MB.*memory is 0\.4 MB.*to 3 MB"):
        source.within(MEMORY)
    with pytest.raises(ValueError, match="unpacked whole"):
        LinearSVC(memory=MEMORY).fit(source, Y)
    assert_rows(source.within(3_000_000))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", [LinearSVC, SGDClassifier])
def test_an_object_that_is_sliced_is_streamed(machine):
    X = Sliced()
    model = machine(memory=MEMORY, max_iter=3, random_state=0).fit(X, Y)
    assert X.read > 2 * VALUES.nbytes and X.longest <= MEMORY // 4
    np.testing.assert_array_equal(model.predict(X), model.predict(VALUES))
    whole, wanted = (machine(random_state=0, max_iter=3).fit(rows, Y) for rows in (Sliced(), VALUES))
    np.testing.assert_array_equal(whole.coef_, wanted.coef_)


def test_chunks_of_such_an_object():
    """Numbers, as Zarr has them, or the lengths of all, as Dask has them."""
    for chunks in ((N, 2), ((N,), (2,) * 15)):
        X = Sliced(chunks=chunks)
        small = as_source(X).within(MEMORY)
        assert X.read == VALUES.nbytes and X.longest == N * 2 * 4
        assert_rows(small)
        assert X.read == VALUES.nbytes
    assert_rows(as_source(Sliced(chunks=(500, D))).within(MEMORY))


def test_predictions_are_within_the_memory_too():
    X = Sliced(chunks=(N, 2))
    model = LinearSVC(memory=MEMORY, random_state=0).fit(VALUES, Y)
    np.testing.assert_array_equal(model.predict(X), model.predict(VALUES))
    assert X.longest == N * 2 * 4 and X.read == VALUES.nbytes


def test_what_such_an_object_holds():
    assert_rows(pickle.loads(pickle.dumps(as_source(Sliced()))))
    bools = as_source(Sliced(VALUES > 0))
    assert bools.dtype == np.uint8 and (bools.read(0, 9).values == (VALUES[:9] > 0)).all()
    whole = np.arange(60).reshape(20, 3)
    np.testing.assert_array_equal(as_source(Sliced(whole)).read(3, 9).values, whole[3:9])  # slices are lists
    masked = np.ma.array(VALUES[:20], mask=VALUES[:20] > 1)
    with pytest.raises(ValueError, match="masked values in rows 0 to 20"):
        LinearSVC().fit(Sliced(masked), Y[:20])
    with pytest.raises(ValueError, match=r"2 dimensions, it has shape \(6000,\)"):
        SVC().fit(Sliced(VALUES[:, 0]), Y)
    with pytest.raises(ValueError, match="must hold numbers"):
        SVC().fit(Sliced(VALUES.astype(complex)), Y)


def test_arrays_in_memory_and_tables_are_no_such_objects():
    pandas = pytest.importorskip("pandas")
    for X in (VALUES, VALUES.tolist(), pandas.DataFrame(VALUES[:5]), pandas.Series([1.0]), "ab", np.float64(3)):
        assert not is_stored(X)


@pytest.mark.filterwarnings("ignore")
def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    for k, chunks in enumerate([(500, D), (N, 2)]):
        X = zarr.create_array(str(tmp_path / str(k)), shape=VALUES.shape, dtype="f4", chunks=chunks)
        X[:] = VALUES
        assert_rows(as_source(X))
        assert_rows(as_source(X).within(MEMORY))
        model, wanted = LinearSVC(random_state=0).fit(X, Y), LinearSVC(random_state=0).fit(VALUES, Y)
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
        streamed = LinearSVC(random_state=0, memory=MEMORY).fit(X, Y)
        assert streamed.objective_ <= wanted.objective_ * 1.002 and streamed.score(X, Y) > 0.95
