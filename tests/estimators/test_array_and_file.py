"""The same samples are learnt the same, to the last bit, from memory and from a file that memory holds."""

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from scipy import sparse
from sklearn.base import clone, is_regressor

from fastsvm import LinearSVC, NystroemFeatures, NystroemSVC, SVCSearch, open_hdf5
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.sources import as_source

# On either side of the numbers of samples or values at which estimators merge equal samples, take another solver, other
# batches or another type, and of a file at which blocks of the statistics end.
SIZES = {"few": (90, 5), "many": (2100, 3), "table": (10_050, 2)}
WIDE = (50, 330)  # fewer samples than features
GIVEN = {
    "linear": [{}, {"loss": "hinge"}, {"penalty": "l1"}, {"multi_class": "crammer_singer"}, {"standardize": True}],
    "linear-regressor": [{}, {"loss": "squared_epsilon_insensitive"}],
    "logistic": [{}, {"penalty": "l1"}],
    "nystroem": [{"n_components": 40}, {"n_components": 40, "landmarks": "rpcholesky", "standardize": True}],
    "nystroem-regressor": [{"n_components": 40, "landmarks": "support"}],
    "sgd": [{}, {"early_stopping": True, "standardize": True}],
    "svc": [{"standardize": True}],
}
KERNEL = ("svc", "svr", "nu-svc", "nu-svr", "one-class")
CASES = [  # the first of each estimator has both kinds of rows, others have one in turn
    (name, given, kind)
    for name in ESTIMATORS
    for i, given in enumerate(GIVEN.get(name, [{}]))
    for j, kind in enumerate(["dense", "CSR"])
    if i == 0 or (i + j) % 2
]


def samples(shape, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) + 0.5
    X[len(X) // 2 :: 7] = X[: len(X[len(X) // 2 :: 7])]  # some are equal
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=len(X)), [0.2, 0.9])
    if kind == "CSR":
        X = sparse.csr_matrix(np.where(rng.random(shape) < 0.5, X, 0))
    return X, y


def written(path, X):
    with h5py.File(path, "w") as file:
        if sparse.issparse(X):
            write_csr(file.create_group("X"), X, chunks=(min(77, X.nnz),))
        else:
            file.create_dataset("X", data=X, chunks=(min(17, len(X)), X.shape[1]))
    return open_hdf5(path)


def assert_same(one, other):
    """Compare all fitted attributes but times."""
    names = [name for name in vars(one) if name.endswith("_") and name != "history_"]
    assert names == [name for name in vars(other) if name.endswith("_") and name != "history_"]
    for name in names:
        a, b = (getattr(model, name) for model in (one, other))
        assert sparse.issparse(a) == sparse.issparse(b), name
        a, b = (value.toarray() if sparse.issparse(value) else value for value in (a, b))
        np.testing.assert_array_equal(a, b, err_msg=name)


def fitted(name, given, X, y):
    model = ESTIMATORS[name](**given)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model.fit(X, y if not is_regressor(model) else y + 0.25)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "given", "kind"), CASES, ids=[f"{name}-{'-'.join(given)}-{kind}" for name, given, kind in CASES]
)
def test_every_estimator(name, given, kind, tmp_path):
    sizes = [*SIZES.values()][: 2 if name in (*KERNEL, "nystroem", "nystroem-regressor") else 3]
    for number, shape in enumerate([*sizes, WIDE]):
        X, y = samples(shape, kind)
        limited = given | ({"max_iter": 300} if name in KERNEL and shape[0] > 1000 else {})
        model = fitted(name, limited, X, y)
        with written(tmp_path / f"{number}.h5", X) as data:
            assert_same(fitted(name, limited, data, y), model)
        if kind == "dense" and shape == SIZES["few"]:
            np.save(tmp_path / "X.npy", X)
            assert_same(fitted(name, limited, np.load(tmp_path / "X.npy", mmap_mode="r"), y), model)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", ">f4", "int64", "longdouble"])
def test_every_type(dtype, tmp_path):
    X, y = samples((90, 5), "dense")
    X = np.round(3 * np.abs(X)).astype(dtype)
    with written(tmp_path / "0.h5", X) as data:
        for name in ("linear", "svc", "sgd"):
            assert_same(fitted(name, {}, data, y), fitted(name, {}, X, y))


def test_a_view(tmp_path):
    """Standardised samples of a file, as a caller of the sources makes them."""
    X, y = samples((90, 5), "dense")
    view = NystroemFeatures(n_components=20, random_state=0, standardize=True)
    with written(tmp_path / "0.h5", X) as data:
        rows = np.arange(0, 90, 2)
        assert_same(fitted("linear", {}, data[rows], y[rows]), fitted("linear", {}, X[rows], y[rows]))
        np.testing.assert_array_equal(view.fit(data).transform(data), view.fit(X).transform(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [None, LinearSVC(random_state=0)], ids=["SVC", "LinearSVC"])
def test_a_search(estimator, tmp_path):
    X, y = samples((90, 5), "dense")
    found = []
    with written(tmp_path / "0.h5", X) as data:
        for rows in (X, data):
            search = SVCSearch(estimator, {"C": [0.1, 10.0]}, cv=3).fit(rows, y)
            found.append((search, {k: v for k, v in search.cv_results_.items() if "score" in k and "time" not in k}))
    np.testing.assert_equal(found[0][1], found[1][1])
    assert_same(found[0][0].best_estimator_, found[1][0].best_estimator_)


def test_samples_that_are_read_in_each_pass_have_the_same_landmarks(tmp_path):
    X, y = samples((4000, 40), "dense")
    given = {"n_components": 30, "gamma": 0.02, "random_state": 0}
    for landmarks in ("uniform", "rpcholesky"):
        model = NystroemSVC(landmarks=landmarks, **given).fit(X, y)
        with written(tmp_path / f"{landmarks}.h5", X) as data:
            streamed = NystroemSVC(landmarks=landmarks, memory="2MB", **given).fit(data, y)
        np.testing.assert_array_equal(streamed.component_indices_, model.component_indices_)
        best = min(model.objective_, streamed.objective_)
        assert abs(model.objective_ - streamed.objective_) <= 1.1e-3 * best  # each is within tol of the optimum


@pytest.mark.filterwarnings("ignore")
def test_rows_that_a_fit_has_read_count_as_its_memory(tmp_path):
    X, y = samples((2000, 50), "dense")  # 800 kB
    with written(tmp_path / "0.h5", X) as data:
        assert as_source(data).loaded().held == X.nbytes and as_source(X).loaded().held == 0
        found = []
        for memory in (2_500_000, 10_000_000):  # too little beside them, so that they are read in each pass, or enough
            before = data.X.reads.nbytes
            fitted("svc", {"memory": memory, "max_iter": 3}, data, y)
            found.append(data.X.reads.nbytes - before)
    assert found[0] > 2 * X.nbytes and found[1] == X.nbytes


@pytest.mark.parametrize("name", ["sgd", "sgd-regressor", "linear", "linear-regressor", "logistic"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_types_of_indices_change_no_bit(name, tmp_path):
    """Of rows of less than a value, those types are most of the bytes."""
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(np.where(rng.random((300, 6)) < 0.03, rng.normal(size=(300, 6)), 0))
    y, model = rng.integers(0, 2, 300), ESTIMATORS[name](random_state=0)
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert X.indptr.dtype != wide.indptr.dtype
    with written(tmp_path / "rows.h5", X) as data:
        found = [clone(model).fit(rows, y) for rows in (X, wide, data)]
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])
