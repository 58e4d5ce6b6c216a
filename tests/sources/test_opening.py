"""Samples that are anywhere: the same rows, labels and weights as those that were stored."""

import gc
import os
import pickle

import h5py
import numpy as np
import pytest
from scipy import sparse

import fastsvm
from fastsvm import SGDClassifier
from fastsvm.sources import is_stored

N, D = 60, 5
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6), 2)
Y = np.array(["cat", "dog", "eel"])[np.arange(N) % 3]
WEIGHT = np.linspace(1, 2, N)


def rows_of(data):
    values = data.X.in_memory().block.user_array()
    return values.toarray() if sparse.issparse(values) else values


def check(data, y=Y, rows=X):
    np.testing.assert_array_equal(rows_of(data), rows)
    np.testing.assert_array_equal(data.y, y)
    some = data[np.array([5, 3])]
    np.testing.assert_array_equal(rows_of(some), rows[[5, 3]])
    np.testing.assert_array_equal(some.y, np.asarray(y)[[5, 3]])
    assert is_stored(data)
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(rows_of(copy), rows)
    copy.close()


def csr_group(parent, name, rows):
    group = parent.create_group(name)
    group.attrs.update({"encoding-type": f"{rows.format}_matrix", "encoding-version": "0.1.0", "shape": rows.shape})
    for part in ("data", "indices", "indptr"):
        group[part] = getattr(rows, part)
    return group


def write_anndata(file, X, form=None):
    """Write what AnnData does: rows in X, a layer, categories in obs, and names of cells and genes."""
    if form is None:
        file["X"] = X
    else:
        csr_group(file, "X", sparse.csr_array(X).asformat(form))
    file.create_group("layers")["doubled"] = 2 * X
    obs, var = file.create_group("obs"), file.create_group("var")
    for frame, n, letter in ((obs, N, "c"), (var, D, "g")):
        frame.attrs["_index"] = "_index"
        frame["_index"] = np.array([f"{letter}{k}" for k in range(n)], dtype=object)
    kinds = obs.create_group("cell_type")
    kinds.attrs["encoding-type"] = "categorical"
    names, codes = np.unique(Y, return_inverse=True)
    kinds["categories"], kinds["codes"] = names.astype(object), codes.astype(np.int8)
    obs["depth"] = WEIGHT


@pytest.mark.parametrize("form", [None, "csr", "csc"])
def test_anndata(tmp_path, form):
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        write_anndata(file, X, form)
    with fastsvm.open(path, y="cell_type", sample_weight="obs/depth") as data:
        check(data)
        np.testing.assert_array_equal(data.sample_weight, WEIGHT)
        if form != "csc":
            assert data.feature_names.tolist() == [f"g{k}" for k in range(D)]
            assert data.ids[:2].tolist() == ["c0", "c1"]
        model = SGDClassifier(random_state=0, max_iter=3, tol=None).fit(data)
    plain = SGDClassifier(random_state=0, max_iter=3, tol=None).fit(
        X if form is None else sparse.csr_array(X), Y, sample_weight=WEIGHT
    )
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    with fastsvm.open(path, X="doubled", y="cell_type") as data:
        check(data, rows=2 * X)


def test_columns_in_many_passes_of_little_memory(tmp_path):
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        csr_group(file, "X", sparse.csc_array(X))
    with fastsvm.open(path, y=Y, memory=64 * 20) as data:
        check(data)


def test_missing_categories_are_refused(tmp_path):
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        write_anndata(file, X)
        file["obs/cell_type/codes"][7] = -1
    with pytest.raises(ValueError, match=r"cell_type.* has no value in 1 of 60 rows, first in row 7"):
        fastsvm.open(path, y="cell_type")


def test_other_names_are_listed(tmp_path):
    path = tmp_path / "own.h5"
    with h5py.File(path, "w") as file:
        file["train/images"], file["train/kinds"] = X.reshape(N, 1, D), Y.astype(object)
    with fastsvm.open(path, X="train/images", y="train/kinds") as data:
        check(data)
    with pytest.raises(ValueError, match=r"no dataset or CSR group 'X'; it holds train/images \(60, 1, 5\) float64"):
        fastsvm.open(path)
    with pytest.raises(ValueError, match=r"no part 'labels'; it holds train/images"):
        fastsvm.open(path, X="train/images", y="labels")


@pytest.mark.parametrize("chunks", [None, (2, 7)])
def test_matlab(tmp_path, chunks):
    path = tmp_path / "own.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("features", data=X.T, chunks=chunks).attrs["MATLAB_class"] = np.bytes_("double")
        file["kind"] = np.arange(N, dtype=float)[None] % 3
        file["pictures"] = np.arange(N * 6.0).reshape(N, 2, 3).T  # which MATLAB shows as N x 2 x 3
        file["pictures"].attrs["MATLAB_class"] = np.bytes_("double")
        columns = sparse.csc_array(X)
        group = file.create_group("sparse")
        group.attrs["MATLAB_sparse"] = np.uint64(N)
        group["data"], group["ir"], group["jc"] = columns.data, columns.indices, columns.indptr
    for name in ("features", "sparse"):
        with fastsvm.open(path, X=name, y="kind") as data:
            check(data, y=np.arange(N) % 3)
    with fastsvm.open(path, X="pictures", y=Y) as data:
        check(data, rows=np.arange(N * 6.0).reshape(N, 6))


@pytest.mark.parametrize("form", [None, "csr", "csc", "array"])
@pytest.mark.parametrize("version", [2, 3])
def test_zarr(tmp_path, form, version):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "cells.zarr"
    if form == "array":
        stored = zarr.create_array(path, shape=X.shape, chunks=(16, 3), dtype=X.dtype, zarr_format=version)
        stored[:] = X
        with fastsvm.open(path, y=Y) as data:
            check(data)
        return
    group = zarr.open_group(path, mode="w", zarr_format=version)
    rows = X if form is None else sparse.csr_array(X).asformat(form)
    if form is None:
        more = {"shards": (32, 6)} if version == 3 else {}
        group.create_array("X", shape=X.shape, chunks=(16, 3), dtype=X.dtype, **more)[:] = X
    else:
        part = group.create_group("X")
        part.attrs.update({"encoding-type": f"{form}_matrix", "shape": list(X.shape)})
        for name in ("data", "indices", "indptr"):
            part[name] = getattr(rows, name)
    kinds = group.create_group("obs").create_group("cell_type")
    names, codes = np.unique(Y, return_inverse=True)
    kinds["codes"] = codes
    kinds.create_array("categories", shape=names.shape, dtype=str)[:] = names.astype(object)
    with fastsvm.open(path, y="cell_type") as data:
        check(data)
    with pytest.raises(ValueError, match="no part 'kind'"):
        fastsvm.open(path, y="kind")


def test_npy(tmp_path):
    np.save(tmp_path / "rows.npy", X.reshape(N, 1, D))
    np.save(tmp_path / "kinds.npy", Y)
    with fastsvm.open(tmp_path / "rows.npy", y="kinds.npy") as data:
        check(data)
        assert not data.X.resident
    with pytest.raises(ValueError, match=r"y has shape \(3,\)"):
        fastsvm.open(tmp_path / "rows.npy", y=[1, 2, 3])


def test_npz(tmp_path):
    sparse.save_npz(tmp_path / "rows.npz", sparse.csr_array(X))
    with fastsvm.open(tmp_path / "rows.npz", y=Y) as data:
        check(data)
    np.savez(tmp_path / "both.npz", images=X, kinds=Y)
    with fastsvm.open(tmp_path / "both.npz", X="images", y="kinds") as data:
        check(data)


def test_text(tmp_path):
    lines = ["a,b,c,d,e,kind,w"] + [
        ",".join([*map(repr, row.tolist()), kind, repr(weight)])
        for row, kind, weight in zip(X, Y, WEIGHT.tolist(), strict=True)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with fastsvm.open(tmp_path / "rows.csv", y="kind", sample_weight="w", dtype="float64") as data:
        check(data)
        np.testing.assert_array_equal(data.sample_weight, WEIGHT)
        folder = data.X.node.file.filename
    assert not (tmp_path / folder).exists()
    with fastsvm.open(tmp_path / "rows.csv", X=["b", "a"], y="kind", dtype="float64") as data:
        check(data, rows=X[:, [1, 0]])
    with pytest.raises(ValueError, match="svmlight, which has no names for y"):
        (tmp_path / "rows.txt").write_text("1 1:2\n2 1:1\n")
        fastsvm.open(tmp_path / "rows.txt", y="kind")


def test_parquet_folder(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for part, rows in enumerate((slice(0, 40), slice(40, N))):
        columns = {name: X[rows, k] for k, name in enumerate("abcde")} | {"kind": Y[rows]}
        parquet.write_table(pa.table(columns), tmp_path / f"part-{part}.parquet")
    with fastsvm.open(tmp_path, y="kind", dtype="float64") as data:
        check(data)


class Batches:
    """Batches of every kind, as loaders give them."""

    @staticmethod
    def pairs(rows):
        return X[rows], Y[rows]

    @staticmethod
    def lists(rows):
        return [X[rows], Y[rows], WEIGHT[rows]]

    @staticmethod
    def sparse_pairs(rows):
        return sparse.csr_array(X[rows]), Y[rows]

    @staticmethod
    def dicts(rows):
        return {"embedding": list(X[rows]), "kind": list(Y[rows]), "id": list(range(len(X[rows])))}

    @staticmethod
    def frames(rows):
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(X[rows], columns=list("abcde")).assign(kind=Y[rows])

    @staticmethod
    def arrow(rows):
        pa = pytest.importorskip("pyarrow")
        return pa.table({name: X[rows, k] for k, name in enumerate("abcde")} | {"kind": Y[rows].tolist()})


@pytest.mark.parametrize("kind", ["pairs", "lists", "sparse_pairs", "dicts", "frames", "arrow"])
@pytest.mark.parametrize("is_called", [True, False])
def test_batches(kind, is_called, tmp_path):
    def batches():
        for start in range(0, N, 17):
            yield getattr(Batches, kind)(slice(start, start + 17))

    names = {"dicts": {"X": "embedding", "y": "kind"}, "frames": {"y": "kind"}, "arrow": {"y": "kind"}}.get(kind, {})
    with fastsvm.open(batches if is_called else batches(), scratch=tmp_path, **names) as data:
        check(data)
        assert (data.sample_weight is not None) == (kind == "lists")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["frames", "arrow"])
def test_tables_in_memory(kind):
    with fastsvm.open(getattr(Batches, kind)(slice(None)), y="kind") as data:
        check(data)
        assert data.feature_names.tolist() == list("abcde")


def test_a_scratch_file_goes_with_the_data(tmp_path):
    data = fastsvm.open(lambda: [(X, Y)], scratch=tmp_path)
    assert list(tmp_path.iterdir())
    del data
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_the_same_batches_have_the_same_digest(tmp_path):
    digests = set()
    for _ in range(2):
        with fastsvm.open(lambda: [(X, Y)], scratch=tmp_path) as data:
            digests.add(data.X.digest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((X[:, :4], Y), r"batch 1 is dense with 4 features; batch 0 is dense with 5"),
        ((sparse.csr_array(X), Y), r"batch 1 is sparse"),
        ((X, np.arange(N)), r"y of batch 1 holds int64; that of batch 0 is of another kind"),
        ((X, Y[:3]), r"y of batch 1 has shape \(3,\)"),
        ((np.full((2, D), np.nan), Y[:2]), r"batch 1: the value in row 60, column 0 is nan"),
        ((X.astype(str), Y), r"batch 1 has shape \(60, 5\) and type <U"),
        (X, r"batch 1 has no labels"),
    ],
)
def test_batches_that_do_not_fit(second, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        fastsvm.open([(X, Y), second], scratch=tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_holds_no_samples(tmp_path):
    with pytest.raises(TypeError, match="found int"):
        fastsvm.open(3)
    with pytest.raises(ValueError, match="no batches"):
        fastsvm.open([])
    with pytest.raises(FileNotFoundError):
        fastsvm.open(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match="scratch file"):
        fastsvm.open([(X, Y)], scratch=tmp_path / "none")
    with pytest.raises(TypeError, match="options first_index"):
        fastsvm.open([(X, Y)], first_index=1)


def test_dask_array():
    da = pytest.importorskip("dask.array")
    with fastsvm.open(da.from_array(X, chunks=(16, 5)), y=Y) as data:
        check(data)


def test_labels_follow_rows_that_are_shuffled(tmp_path):
    np.savez(tmp_path / "rows.npz", X=X)
    with fastsvm.open(tmp_path / "rows.npz", y=Y, shuffle=True) as data:
        rows = data.source_row
        assert (rows != np.arange(N)).any()
        np.testing.assert_array_equal(data.y, Y[rows])
        np.testing.assert_array_equal(rows_of(data), X[rows])


def test_columns_of_batches_go_by_name():
    pandas = pytest.importorskip("pandas")
    first = pandas.DataFrame({"a": [1.0, 2], "b": [10.0, 20], "label": [0, 1]})
    with fastsvm.open([first, first[["b", "label", "a"]]]) as data:
        np.testing.assert_array_equal(rows_of(data), [[1, 10], [2, 20], [1, 10], [2, 20]])
        assert data.y.tolist() == [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"batch 1 has the columns \('a', 'c'\)"):
        fastsvm.open([first, first.rename(columns={"b": "c"})])


@pytest.mark.parametrize(
    ("first", "second"),
    [("int8", [[300]]), ("uint8", [[256]]), ("float16", [[1e-9]]), ("float32", [[2**24 + 1]])],
)
def test_values_of_later_batches_must_fit(first, second):
    with pytest.raises(ValueError, match=r"batch 1 holds .*, in which values would change"):
        fastsvm.open([np.ones((2, 1), first), np.array(second)])
    with fastsvm.open([np.ones((2, 1), first), np.ones((1, 1), np.int64)]) as data:
        np.testing.assert_array_equal(rows_of(data), np.ones((3, 1)))


def test_weights_of_batches_are_those_of_their_rows():
    with pytest.raises(ValueError, match=r"batch 0 has 60 rows, and weights of shape \(59,\)"):
        fastsvm.open([(X, Y, WEIGHT[1:])])
    with pytest.raises(ValueError, match="batch 1 has no weights, unlike batch 0"):
        fastsvm.open([(X, Y, WEIGHT), (X, Y)])


def test_empty_batches_and_lists_of_rows():
    with fastsvm.open([(X[:0], Y[:0]), (X, Y), (X[:0], Y[:0])]) as data:
        check(data)
    with fastsvm.open([X[:2].tolist(), X[2:].tolist()]) as data:
        np.testing.assert_array_equal(rows_of(data), X)
    with fastsvm.open(X.tolist(), y=Y) as data:
        check(data)


def test_a_variable_of_matlab_that_is_named_x(tmp_path):
    square = np.arange(16.0).reshape(4, 4)
    with h5py.File(tmp_path / "own.mat", "w") as file:
        file["X"] = square.T
        file["X"].attrs["MATLAB_class"] = np.bytes_("double")
    with fastsvm.open(tmp_path / "own.mat") as data:
        np.testing.assert_array_equal(rows_of(data), square)


def test_categories_of_old_files(tmp_path):
    names, codes = np.unique(Y, return_inverse=True)
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        file["X"], file["obs/kind"] = X, codes.astype(np.int8)
        file["obs/__categories/kind"] = names.astype(object)
        file["obs/kind"].attrs["categories"] = file["obs/__categories/kind"].ref
    with fastsvm.open(tmp_path / "old.h5ad", y="kind") as data:
        check(data)


def test_what_cannot_be_used_is_refused(tmp_path):
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["X"], file["loop"] = X, h5py.SoftLink("/")
        file["kind"] = np.dtype("f8")
    with fastsvm.open(X, y=Y) as data, pytest.raises(TypeError, match="open already"):
        fastsvm.open(data, y=Y)
    with pytest.raises(TypeError, match="must be the name of a part"):
        fastsvm.open(tmp_path / "own.h5", X=["a"])
    with pytest.raises(ValueError, match="Batches of arrays have no columns"):
        fastsvm.open([(X, Y)], y="label")
    with pytest.raises(ValueError, match="has no names"):
        fastsvm.open(X, X="a")
    with pytest.raises(ValueError, match=r"no part 'none'; it holds X \(60, 5\) float64"):
        fastsvm.open(tmp_path / "own.h5", y="none")
    with pytest.raises(ValueError, match="masked"):
        fastsvm.open(np.ma.masked_equal(X, 0))


def test_errors_of_the_users_generator_stay():
    def batches():
        yield X, Y
        b"\xff".decode()

    with pytest.raises(UnicodeDecodeError):
        fastsvm.open(batches)


def test_columns_that_repeat_entries(tmp_path):
    with h5py.File(tmp_path / "own.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": (2, 1)})
        group["data"], group["indices"], group["indptr"] = np.array([100, 100], np.int8), [0, 0], [0, 2]
    with pytest.raises(ValueError, match="repeats entries whose sum does not fit int8"):
        fastsvm.open(tmp_path / "own.h5", y=[0, 1])


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("shape", (2, 1, 1), "shape must be two whole numbers"),
        ("data", None, "data must hold numbers"),
        ("indices", [0.5], "indices must hold integers"),
        ("indices", [0, 1], "1 values but 2 row numbers"),
        ("indices", [-1], "row numbers are -1 to -1"),
        ("indptr", [0, 2], "must rise from 0 to 1"),
    ],
)
def test_columns_that_are_damaged(name, values, words, tmp_path):
    parts = {"shape": (2, 1), "data": [1.0], "indices": [0], "indptr": [0, 1], name: values}
    with h5py.File(tmp_path / "own.h5", "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": parts.pop("shape")})
        for part, given in parts.items():
            if given is not None:
                group[part] = given
    with pytest.raises(ValueError, match=words):
        fastsvm.open(tmp_path / "own.h5", y=[0, 1])


def test_images_of_zarr_are_rows(tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "images.zarr", shape=(N, 5, 1), chunks=(16, 3, 1), dtype=X.dtype)
    stored[:] = X[:, :, None]
    with fastsvm.open(tmp_path / "images.zarr", y=Y) as data:
        check(data)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_leaves_the_scratch_file(tmp_path):
    with fastsvm.open([(X, Y)], scratch=tmp_path) as data:
        if (child := os.fork()) == 0:
            data.removal()
            os._exit(0)
        os.waitpid(child, 0)
        assert data.scratch.exists()
        check(data)
