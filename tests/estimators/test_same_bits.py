"""A row's predictions have the same bits whatever stands beside it, for every estimator and every kind of rows."""

from itertools import product

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from scipy import sparse

from fastsvm import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor
from fastsvm._compiled.threads import Pool, at_most
from fastsvm.estimators.kernel import prediction
from fastsvm.kernel_matrix import expansion
from fastsvm.kernel_matrix import gram as gram_module
from fastsvm.kernel_matrix.pairwise import RealPairwise, Rows
from fastsvm.kernels import KERNELS
from fastsvm.linalg.linear_predictor import block_scores
from fastsvm.linalg.row_products import add_panel_products, panels_of, panels_of_columns
from fastsvm.sources import DenseBlock, as_source, feature_statistics, open_hdf5
from fastsvm.tuning import changed, tuned

N, D = 300, 37
rng = np.random.default_rng(16)
FLOATS = rng.normal(size=(N, D))
FLOATS[40:60] = FLOATS[:20]  # equal rows, of which some are supports
GAPS = np.where(rng.random((N, D)) < 0.6, 0, FLOATS)
BYTES = rng.integers(0, 256, (N, D), np.uint8)
STORED = {
    "float64": FLOATS,
    "float32": FLOATS.astype(np.float32),
    "float16": FLOATS.astype(np.float16),
    "uint8": BYTES,
    "int64": BYTES.astype(np.int64),
    "csr": sparse.csr_matrix(GAPS),
    "csr of float32": sparse.csr_matrix(GAPS.astype(np.float32)),
}
CLASSES = {2: (FLOATS[:, 0] > 0).astype(int), 4: np.digitize(FLOATS[:, 0], [-0.7, 0, 0.7])}
FEW = dict(max_iter=60)


def assert_same_bits(function, X):
    whole, order = function(X), np.random.default_rng(0).permutation(N)
    mixed = X[order]
    np.testing.assert_array_equal(function(mixed), whole[order])
    for size, among in ((1, 60), (2, 60), (3, 60), (7, 60), (64, N), (257, N)):  # small batches of some rows
        parts = np.concatenate([function(mixed[a : min(a + size, among)]) for a in range(0, among, size)])
        np.testing.assert_array_equal(parts, whole[order[:among]], err_msg=f"{size} rows at a time")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        *product(KERNELS, ("float64", "uint8", "csr")),
        *product(["rbf"], ("float32", "float16", "int64", "csr of float32")),
    ],
)
def test_svc(kernel, kind):
    """Every kernel with each way to pair rows; the types that are converted to those with one."""
    X = STORED[kind]
    for n_classes in (2, 4) if kernel == "rbf" else (4,):
        model = SVC(kernel=kernel, gamma="scale", coef0=0.3, **FEW).fit(X, CLASSES[n_classes])
        assert_same_bits(model.decision_function, X)
        np.testing.assert_array_equal(model.predict(X[:1]), model.predict(X)[:1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "exponential", "sigmoid"])
def test_values_in_float32(kernel, monkeypatch):
    monkeypatch.setattr(prediction.Predictor, "_value_type", lambda *given: np.float32)
    model = SVC(kernel=kernel, **FEW).fit(FLOATS, CLASSES[4])
    assert_same_bits(model.decision_function, FLOATS)


@pytest.mark.filterwarnings("ignore")
def test_kernel_values_given():
    values = FLOATS @ FLOATS.T
    assert_same_bits(SVC(kernel="precomputed", **FEW).fit(values, CLASSES[4]).decision_function, values)


@pytest.mark.filterwarnings("ignore")
def test_rows_of_bytes_beside_others():
    """The support vectors are bytes in the guise of floats; one row of a batch is not."""
    X = BYTES / 255
    model = SVC(**FEW).fit(X, CLASSES[4])
    mixed = X.copy()
    mixed[::5] += 1e-3
    with tuned(changed({"kernel": {"byte_values": 0}})):
        for rows in (mixed, sparse.csr_matrix(mixed), mixed.astype(np.float32)):
            assert_same_bits(model.decision_function, rows)
        decisions_of_mixed, decisions = model.decision_function(mixed), model.decision_function(X)
    np.testing.assert_array_equal(decisions_of_mixed[1:5], decisions[1:5])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "kind", "standardize"),
    [
        *((LinearSVC, kind, False) for kind in STORED),
        (LinearSVC, "float64", True),
        (LinearSVR, "float64", False),
        (SGDClassifier, "float64", True),
        (SGDRegressor, "float64", False),
    ],
)
def test_linear_models(estimator, kind, standardize):
    """All of them share the code of predictions, so that one takes all kinds of rows."""
    X = STORED[kind]
    y = FLOATS[:, 0] if estimator in (LinearSVR, SGDRegressor) else CLASSES[4]
    model = estimator(standardize=standardize, max_iter=3).fit(X, y)
    assert_same_bits(getattr(model, "decision_function", model.predict), X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", STORED)
def test_a_file_and_an_array(kind, tmp_path):
    X = STORED[kind]
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        if sparse.issparse(X):
            group = file.create_group("X")
            group.attrs["shape"] = X.shape
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(X, name))
        else:
            file.create_dataset("X", data=X, chunks=(17, D))
    for model in (SVC(**FEW).fit(X, CLASSES[4]), LinearSVC(max_iter=3).fit(X, CLASSES[4])):
        with open_hdf5(tmp_path / "rows.h5") as data:
            data.X.block_rows = 34
            np.testing.assert_array_equal(model.decision_function(data), model.decision_function(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("q", "n", "d"), [(1, 1, 1), (7, 33, 3), (49, 100, 255), (20, 9, 513), (3, 5, 0)])
def test_panels(q, n, d, dtype):
    x, z = rng.normal(size=(q, d)).astype(dtype), rng.normal(size=(n, d)).astype(dtype)
    panels = panels_of(z)
    out = np.full((q, panels.shape[0] * panels.shape[2]), np.nan, dtype)
    add_panel_products(x, panels, out)
    exact = x.astype(np.float64) @ z.T.astype(np.float64)
    np.testing.assert_allclose(out[:, :n], exact, rtol=0, atol=np.finfo(dtype).eps * (d + 4) * 8)
    assert (out[:, n:] == 0).all()
    for a, b in ((0, q), (q // 2, q)):
        for k in range(n):
            alone = np.empty((b - a, panels.shape[2]), dtype)
            add_panel_products(np.ascontiguousarray(x[a:b]), panels_of(z[k : k + 1]), alone)
            np.testing.assert_array_equal(alone[:, 0], out[a:b, k])


def test_panels_of_columns_go_on_after_a_multiple_of_256():
    x, z = rng.normal(size=(5, 600)), rng.normal(size=(600, 41)).astype(np.float32)
    width = panels_of_columns(z).shape[2] * len(panels_of_columns(z))
    whole = np.empty((5, width))
    add_panel_products(x, panels_of_columns(z), whole)
    parts = np.empty((5, width))
    add_panel_products(np.ascontiguousarray(x[:, :256]), panels_of_columns(z[:256]), parts)
    add_panel_products(np.ascontiguousarray(x[:, 256:]), panels_of_columns(z[256:]), parts, resume=True)
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_allclose(whole[:, :41], x @ z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("values", [FLOATS, FLOATS.astype(np.float32), FLOATS.astype(np.float16), BYTES])
@pytest.mark.parametrize("exact", [False, True])
def test_many_scores(values, exact):
    coef, intercept, n_features = rng.normal(size=(50, values.shape[1])), rng.normal(size=50), values.shape[1]
    whole = block_scores(DenseBlock(values), coef, intercept, exact)
    is_single = not exact and values.dtype != np.float64
    tolerance = n_features * float(values.max()) * np.finfo(np.float32 if is_single else np.float64).eps * 8
    expected = values.astype(np.float64) @ coef.T + intercept
    np.testing.assert_allclose(whole, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(
        block_scores(DenseBlock(values), coef[:1], intercept[:1], exact), whole[:, :1], rtol=0, atol=tolerance
    )
    for a, b in ((0, 0), (0, 1), (3, 10), (5, len(values))):
        some = block_scores(DenseBlock(values[a:b]), coef, intercept, exact)
        np.testing.assert_array_equal(some, whole[a:b])


def test_supports_in_parts(monkeypatch):
    pairwise = RealPairwise(KERNELS["rbf"](0.1), np.float64, None, False, all_near=True)
    support = rng.normal(size=(600, D))
    coef = rng.normal(size=(len(support), 6))
    with Pool.open() as pool:
        whole = expansion.expand(pairwise, DenseBlock(support), coef, DenseBlock(FLOATS), pool)
        monkeypatch.setattr(pairwise, "row_bytes", lambda rows: 1 << 18)  # 256 rows of an operand
        parts = expansion.expand(pairwise, DenseBlock(support), coef, DenseBlock(FLOATS), pool)
    np.testing.assert_array_equal(parts, whole)
    squares = ((FLOATS[:, None] - support) ** 2).sum(axis=2)
    np.testing.assert_allclose(whole, np.exp(-0.1 * squares) @ coef, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_a_tile_and_its_columns(name, dtype):
    """Roots and quotients of vectors may be others than those of single numbers."""
    kernel = KERNELS[name](**{"gamma": 0.1} if "gamma" in KERNELS[name]._fields else {})
    pairwise = RealPairwise(kernel, dtype, None, False, all_near=True)
    block, slots = DenseBlock(FLOATS[:101]), np.arange(40)
    operand, terms = pairwise.prepare(DenseBlock(FLOATS[:40])), pairwise.terms(block)
    whole, alone = np.empty((40, 101), dtype), np.empty((40, 101), dtype)
    pairwise.tile(operand, block, terms, Rows(whole, slots, 0))
    for k in range(101):
        pairwise.tile(operand, block.slice(k, k + 1), terms[k : k + 1], Rows(alone, slots, k))
    np.testing.assert_array_equal(alone, whole)


# --- of training -------------------------------------------------------------------------------------------


def training_rows(layout, scale, d):
    """Return rows of which some are equal to others, and some near to others."""
    rows = scale * np.random.default_rng(d).normal(size=(560, d))
    rows[40:60], rows[60:80] = rows[:20], rows[20:40] + 0.3 / np.sqrt(d)
    if layout == "csr":
        return sparse.csr_matrix(np.where(rng.random(rows.shape) < 0.6, 0, rows))
    return rows.astype(layout)


def gram_of(source, name, dtype, pool):
    fields = KERNELS[name]._fields
    kernel = KERNELS[name](**{"gamma": 0.7 / source.shape[1] if name == "poly" else 0.02} if "gamma" in fields else {})
    return gram_module.Gram(RealPairwise(kernel, dtype, feature_statistics(source).centre, source.sparse), source, pool)


def all_rows(gram):
    out = np.full((len(gram), len(gram)), np.nan, gram.dtype)
    gram.rows(np.arange(len(gram)), out, np.arange(len(gram)))
    return out


def assert_rows_in_parts(gram, whole, monkeypatch, seed):
    """Compare rows that are asked for a few at a time, some of them beside known ones, and the kernel among some."""
    n, random = len(gram), np.random.default_rng(seed)
    order, known = random.permutation(n), 0
    monkeypatch.setattr(gram_module, "task_columns", lambda *given: int(random.choice([1, 7, 32, 100, 512])))
    out, slot_of = np.full((n, n), np.nan, gram.dtype), np.full(n, -1)
    while known < n:
        new = order[known : known + int(random.choice([1, 3, 17, 60, 260]))]
        slots = np.arange(known, known + len(new))
        gram.rows_beside(new, Rows(out, slots, 0), slot_of)
        slot_of[new], known = slots, known + len(new)
    np.testing.assert_array_equal(out, whole[order])
    some = order[: random.integers(2, n)]
    among, first = np.empty((len(some), len(some)), gram.dtype), random.integers(len(some))
    gram.among(some, first, among)
    np.testing.assert_array_equal(among[first:], whole[np.ix_(some[first:], some)])


TABLES = (1.0, 37), (1e3, 37), (0.1, 403)  # scales, and numbers of features
OF_ROWS = [
    *product(KERNELS, ("float64", "csr"), (np.float64,)),
    *product(KERNELS, ("float32",), (np.float32,)),
    ("rbf", "float64", np.float32),
    ("rbf", "csr", np.float32),
    ("rbf", "float32", np.float64),
]
OF_ALL_TABLES = ("rbf", "float64", np.float64), ("rbf", "csr", np.float64)


@pytest.mark.parametrize(
    ("name", "layout", "dtype", "tables"),
    [(*case, TABLES if case in OF_ALL_TABLES else TABLES[i % 3 :][:1]) for i, case in enumerate(OF_ROWS)],
)
def test_rows_of_the_kernel_matrix(name, layout, dtype, tables, tmp_path, monkeypatch):
    """A value is that of its two rows, whatever else is computed, where, and which of the two comes first."""
    for scale, d in tables:
        X = training_rows(layout, scale, d)
        with Pool.open() as pool:
            whole = all_rows(gram_of(as_source(X), name, dtype, pool))
        np.testing.assert_array_equal(whole, whole.T)
        computed, copied = ({"task_ns": 0.0}, {"task_ns": 0.0, "cheap_ns": 0.0, "expensive_ns": 0.0})
        for n_threads, change in ((1, computed), (2, copied)):
            tuning = tuned(changed({"kernel": change}))
            with monkeypatch.context() as patch, tuning, at_most(n_threads), Pool.open() as pool:
                assert_rows_in_parts(gram_of(as_source(X), name, dtype, pool), whole, patch, d + n_threads)
        path = tmp_path / f"{scale}-{d}.h5"
        with h5py.File(path, "w") as file:
            if sparse.issparse(X):
                write_csr(file.create_group("X"), X)
            else:
                file.create_dataset("X", data=X, chunks=(17, d))
        for block_rows in (9, 34):
            with open_hdf5(path) as data, Pool.open() as pool:
                data.X.block_rows = block_rows
                np.testing.assert_array_equal(all_rows(gram_of(data.X, name, dtype, pool)), whole)
