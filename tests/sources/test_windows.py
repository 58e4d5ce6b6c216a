import threading
import time
from itertools import product

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from scipy import sparse

from fastsvm.sources import MemorySource, ScaledSource, SubsetSource, as_source, whole_epochs, windows

N, D = 137, 4
VALUES = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
VALUES[np.random.default_rng(1).uniform(size=(N, D)) < 0.5] = 0
VALUES[:, 0] = np.arange(N)  # identifies the row
SHIFT, SCALE = np.arange(D, dtype=np.float32), np.float32(0.5)
SEED = (5, 0)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("epochs") / "rows.h5"
    with h5py.File(path, "w") as file:
        file["dense"] = VALUES
        file.create_dataset("chunked", data=VALUES, chunks=(3, 2), compression="gzip")
        X, group = sparse.csr_array(VALUES), file.create_group("csr")
        write_csr(group, X)
    with h5py.File(path, "r") as file:
        yield file


SOURCES = {
    "memory": lambda file: as_source(VALUES),
    "memory CSR": lambda file: as_source(sparse.csr_array(VALUES)),
    "file": lambda file: as_source(file["dense"]),
    "file chunked": lambda file: as_source(file["chunked"]),
    "file CSR": lambda file: as_source(file["csr"]),
    "scaled file": lambda file: ScaledSource(as_source(file["dense"]), SHIFT, SCALE),
    "scaled file CSR": lambda file: ScaledSource(as_source(file["csr"]), None, SCALE),
    "subset of a file": lambda file: SubsetSource(as_source(file["dense"]), np.arange(N)),
}
ON_DISK = [name for name in SOURCES if "memory" not in name]
SUBSETS = {
    "all": np.arange(N),
    "some": np.flatnonzero(np.random.default_rng(2).uniform(size=N) < 0.6),
    "one block": np.arange(8, 12),
    "one": np.array([N - 1]),
    "none": np.arange(0),
}


@pytest.fixture(params=SOURCES)
def source(request, file, choose):
    """Return a source of the rows: in memory, or on disk in small blocks."""
    choose(storage={"block_bytes": 130})
    found = SOURCES[request.param](file)
    assert isinstance(found, MemorySource) or 3 <= found.block_rows <= 12
    return found


def stored(source):
    """Return all rows of a source."""
    if not isinstance(source, ScaledSource):
        return VALUES
    return (VALUES - (SHIFT if source.shift is not None else 0)) * SCALE


def visited(source, rows, seed, n_rows, first=0):
    return [window.rows for window in windows(source, rows, seed, n_rows, first)]


VISITS = [
    (subset, [None, SEED][(i + j) % 2], n_rows) for i, subset in enumerate(SUBSETS)
    for j, n_rows in enumerate([1, 7, 50, 10**6])
]  # fmt: skip


def test_every_row_is_visited_once(source):
    for subset, seed, n_rows in VISITS:
        rows = SUBSETS[subset]
        found = visited(source, rows, seed, n_rows)
        np.testing.assert_array_equal(np.sort(np.concatenate([*found, rows[:0]])), rows, f"{subset}, {seed}, {n_rows}")


@pytest.mark.parametrize("seed", [None, SEED])
def test_places_are_those_of_the_rows(seed, source):
    for subset, n_rows in product(("all", "some"), (7, 50)):
        for window in windows(source, SUBSETS[subset], seed, n_rows):
            assert window.places.dtype == window.rows.dtype == np.int64
            found = window.block.dense(np.float32)[window.places]
            np.testing.assert_array_equal(found, stored(source)[window.rows], f"{subset}, {n_rows}")


def test_the_order_of_no_seed_is_that_of_the_source(source):
    for rows in SUBSETS.values():
        found = visited(source, rows, None, 20)
        np.testing.assert_array_equal(np.concatenate([*found, rows[:0]]), rows)


def test_the_order_is_that_of_the_seed(source):
    orders = [np.concatenate(visited(source, SUBSETS["all"], seed, 20)) for seed in (SEED, SEED, (5, 1), (6, 0))]
    np.testing.assert_array_equal(orders[0], orders[1])
    for a, b in ((0, 2), (0, 3), (2, 3)):
        assert np.mean(orders[a] == orders[b]) < 0.2
    assert np.mean(orders[0] == SUBSETS["all"]) < 0.2


@pytest.mark.parametrize("seed", [None, SEED])
def test_the_first_windows_may_be_left_out(seed, source):
    whole = visited(source, SUBSETS["some"], seed, 20)
    for first in (1, 2, 4, 1000):
        rest = visited(source, SUBSETS["some"], seed, 20, first)
        assert len(rest) == max(0, len(whole) - first)
        for found, wanted in zip(rest, whole[first:], strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n_rows", [1, 7])
def test_memory_that_is_used_again_holds_the_rows_of_the_window(n_rows, source):
    buffers = []
    for epoch in range(2):
        for window in windows(source, SUBSETS["some"], (5, epoch), n_rows, 0, buffers):
            time.sleep(0.001)  # meanwhile the reader continues
            found = window.block.dense(np.float32)[window.places]
            np.testing.assert_array_equal(found, stored(source)[window.rows])


@pytest.mark.parametrize("n_rows", [1, 10, 136, 137, 1000])
@pytest.mark.parametrize("name", ["memory", "memory CSR"])
def test_windows_in_memory_have_the_size_asked_for(name, n_rows):
    sizes = [len(rows) for rows in visited(SOURCES[name](None), SUBSETS["all"], SEED, n_rows)]
    assert sizes == [n_rows] * (N // n_rows) + [N % n_rows] * (N % n_rows > 0)


def test_dense_rows_in_memory_are_not_copied():
    source = SOURCES["memory"](None)
    assert all(window.block is source.block for window in windows(source, SUBSETS["some"], SEED, 20))


@pytest.mark.parametrize("n_rows", [1, 10, 30, 1000])
@pytest.mark.parametrize("name", ON_DISK)
def test_windows_on_disk_are_whole_blocks(name, n_rows, file, choose):
    choose(storage={"block_bytes": 130})
    source = SOURCES[name](file)
    most = max(n_rows, source.block_rows)
    sizes = [window.block.shape[0] for window in windows(source, SUBSETS["all"], SEED, n_rows)]
    assert max(sizes) <= most
    assert len(sizes) == -(-len(list(source.spans())) // max(1, n_rows // source.block_rows))


@pytest.mark.parametrize("name", ["file", "file chunked", "file CSR"])
def test_an_epoch_reads_every_row_once(name, file, choose):
    choose(storage={"block_bytes": 130})
    source = SOURCES[name](file)
    whole = source.read(0, N)
    source.reads.nbytes = 0
    n_windows = len(visited(source, SUBSETS["all"], SEED, 30))
    assert n_windows > 3
    extra = 8 * len(list(source.spans())) if source.sparse else 0  # a row pointer more a block
    assert whole.nbytes <= source.reads.nbytes <= whole.nbytes + extra


def test_windows_left_out_are_not_read(file, choose):
    choose(storage={"block_bytes": 130})
    source = SOURCES["file"](file)
    n_windows = len(visited(source, SUBSETS["all"], SEED, 30))
    source.reads.nbytes = 0
    rows = visited(source, SUBSETS["all"], SEED, 30, n_windows - 1)
    assert source.reads.nbytes == len(rows[0]) * D * 4


@pytest.mark.parametrize("name", ON_DISK)
def test_rows_of_blocks_on_disk_are_mixed_within_windows(name, file, choose):
    choose(storage={"block_bytes": 130})
    source = SOURCES[name](file)
    for rows in visited(source, SUBSETS["all"], SEED, 40):
        assert (np.diff(rows) < 0).sum() > len(rows) / 4


@pytest.mark.parametrize("name", SOURCES)
def test_who_ends_in_the_middle_leaves_no_reader(name, file, choose):
    choose(storage={"block_bytes": 130})
    epoch = windows(SOURCES[name](file), SUBSETS["all"], SEED, 30)
    next(epoch)
    epoch.close()
    assert not [thread for thread in threading.enumerate() if "reader" in thread.name]


# --- rows in the order of the source ---------------------------------------------------------------------


@pytest.mark.parametrize("subset", SUBSETS)
def test_windows_of_consecutive_rows_are_in_the_order_of_the_source(subset, source):
    rows = SUBSETS[subset]
    for n_rows in (1, 7, 50, 10**6):
        numbers = []
        for window in windows(source, rows, SEED, n_rows, consecutive=True):
            assert isinstance(source, MemorySource) or (np.diff(window.places) > 0).all()
            np.testing.assert_array_equal(window.block.dense(np.float32)[window.places], stored(source)[window.rows])
            numbers.append(window.rows.copy())
        np.testing.assert_array_equal(np.sort(np.concatenate([*numbers, rows[:0]])), rows)
        if isinstance(source, MemorySource):
            assert all((np.diff(np.searchsorted(rows, part)) == 1).all() for part in numbers)
            assert {len(part) for part in numbers} <= {min(n_rows, len(rows)), len(rows) % n_rows}


def test_windows_of_consecutive_rows_are_in_random_order(source):
    orders = [
        [int(window.rows[0]) for window in windows(source, SUBSETS["all"], seed, 10, consecutive=True)]
        for seed in (SEED, SEED, (5, 1))
    ]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != sorted(orders[0])


@pytest.mark.parametrize("first", [1, 3, 1000])
def test_the_first_windows_of_consecutive_rows_may_be_left_out(first, source):
    whole = [window.rows.copy() for window in windows(source, SUBSETS["some"], SEED, 20, consecutive=True)]
    rest = [window.rows.copy() for window in windows(source, SUBSETS["some"], SEED, 20, first, consecutive=True)]
    assert len(rest) == max(0, len(whole) - first)
    for found, wanted in zip(rest, whole[first:], strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_windows_of_a_subset_are_as_long_as_the_chunks_of_its_file(file, choose):
    choose(storage={"block_bytes": 130, "run_bytes": 1})
    source = SubsetSource(as_source(file["chunked"]), np.arange(1, N))
    lengths = [len(window.rows) for window in windows(source, np.arange(N - 1), SEED, 1)]
    assert sum(lengths) == N - 1 and lengths.count(3) >= len(lengths) - 1


def test_several_epochs_are_those_that_come_one_after_the_other():
    source, rows = MemorySource.of(np.zeros((20, 1))), np.arange(3, 17)
    several = whole_epochs(source, rows, (7, 2), 5).rows.reshape(5, -1)
    for epoch, order in enumerate(several):
        np.testing.assert_array_equal(order, whole_epochs(source, rows, (7, 2 + epoch), 1).rows)
        np.testing.assert_array_equal(np.sort(order), rows)


def test_orders_of_epochs_are_random():
    n, count = 6, 6000
    orders = whole_epochs(MemorySource.of(np.zeros((n, 1))), np.arange(n), (0, 0), count).rows.reshape(count, n)
    places = np.array([np.bincount(column, minlength=n) for column in orders.T])
    assert (np.abs(places - count / n) < 4.5 * (count / n) ** 0.5).all()
    moved = np.bincount((orders[1:, 0] - orders[:-1, 0]) % n, minlength=n)  # from an epoch to the next
    assert (np.abs(moved - count / n) < 4.5 * (count / n) ** 0.5).all()
