"""LinearOneClassSVM: the optimum is that of LIBSVM; weights, certificates, files, interrupts, messages."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

import fastsvm
from fastsvm import LinearOneClassSVM, OneClassSVM

NUS = [0.01, 0.1, 0.3, 0.5, 0.9]


@pytest.fixture(scope="module")
def rows():
    """Return 300 rows beside the origin, a third of their values 0."""
    rng = np.random.default_rng(0)
    return np.maximum(0, rng.normal(size=(300, 6)) + 0.5)


@pytest.fixture(scope="module")
def thin():
    """Return rows that vary least in the direction from the origin to their mean."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 12)) * np.logspace(0, -2, 12)
    X[:, -1] += 0.03
    return X @ np.linalg.qr(rng.normal(size=(12, 12)))[0]


def objective(model, X, nu, weight=None):
    """Return the objective of coef_ and offset_."""
    weight = np.ones(len(X)) if weight is None else weight
    w, offset = model.coef_[0], model.offset_[0]
    return w @ w / 2 - nu * weight.sum() * offset + weight @ np.maximum(0, offset - X @ w)


@pytest.mark.parametrize("nu", NUS)
@pytest.mark.parametrize(
    "layout", [np.asarray, np.float32, sparse.csr_array, lambda X: (40 * X).astype(np.uint8)],
    ids=["float64", "float32", "CSR", "bytes"],
)  # fmt: skip
def test_the_optimum_is_that_of_libsvm(layout, nu, rows):
    stored = layout(rows)
    X = stored.toarray() if sparse.issparse(stored) else stored.astype(np.float64)
    theirs = svm.OneClassSVM(kernel="linear", nu=nu, tol=1e-8 * np.square(X).sum(axis=1).mean()).fit(X)
    model = LinearOneClassSVM(nu=nu, tol=1e-8, random_state=0).fit(stored)
    wanted = -theirs.coef_[0] @ theirs.coef_[0] / 2
    assert model.converged_
    assert model.objective_ == pytest.approx(wanted, rel=1e-6)
    assert model.objective_ == pytest.approx(objective(model, X, nu), rel=1e-9)
    assert model.dual_objective_ <= wanted * (1 - 1e-7) and model.duality_gap_ <= 1e-8 * abs(wanted)
    np.testing.assert_allclose(
        model.score_samples(stored), theirs.score_samples(X), rtol=1e-3, atol=1e-3 * theirs.offset_[0]
    )
    assert abs(np.mean(model.predict(stored) == -1) - nu) <= 7 / 300  # as many may be on the boundary


@pytest.mark.parametrize("nu", [1e-3, 0.999, 1.0])
def test_almost_no_outliers_or_all(nu, rows):
    model = LinearOneClassSVM(nu=nu, tol=1e-9).fit(rows)
    wanted = OneClassSVM(kernel="linear", nu=nu, tol=1e-8).fit(rows).objective_
    assert model.objective_ == pytest.approx(wanted, rel=1e-6)


def test_one_row():
    model = LinearOneClassSVM(nu=0.5).fit([[3.0, 4.0]])
    np.testing.assert_allclose(model.coef_, [[1.5, 2.0]])
    np.testing.assert_allclose(model.offset_, 12.5)
    assert model.predict([[3.0, 4.0], [2.0, 4.0]]).tolist() == [1, -1]


@pytest.mark.parametrize("merging", [True, False])
def test_weights_are_repeated_rows(merging, rows, request):
    if not merging:
        request.getfixturevalue("unmerged")
    count = np.random.default_rng(0).integers(0, 4, len(rows))
    weighted = LinearOneClassSVM(nu=0.2, tol=1e-9, random_state=0).fit(rows, sample_weight=1.0 * count)
    repeated = LinearOneClassSVM(nu=0.2, tol=1e-9, random_state=0).fit(np.repeat(rows, count, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0 if merging else 1e-3)
    assert weighted.objective_ == pytest.approx(objective(weighted, rows, 0.2, count), rel=1e-9)


def test_unequal_weights_are_those_of_the_kernel_machine(rows):
    weight = np.random.default_rng(0).exponential(size=len(rows))  # LIBSVM's sum is of n, not of the weights
    kernel = OneClassSVM(kernel="linear", nu=0.3, tol=1e-8).fit(rows, sample_weight=weight)
    model = LinearOneClassSVM(nu=0.3, tol=1e-9).fit(rows, sample_weight=weight)
    assert model.objective_ == pytest.approx(kernel.objective_, rel=1e-6)
    np.testing.assert_allclose(model.offset_, kernel.offset_, rtol=1e-3)


def test_features_of_any_unit(rows):
    X = rows * 10.0 ** np.arange(-2, 4)
    model = LinearOneClassSVM(nu=0.1, tol=1e-8).fit(X)
    assert model.converged_ and model.duality_gap_ <= 1e-8 * abs(model.objective_)
    assert model.objective_ == pytest.approx(objective(model, X, 0.1), rel=1e-9)
    scaled = LinearOneClassSVM(nu=0.1, tol=1e-8, standardize=True).fit(sparse.csr_array(X))
    unit = rows / rows.std(axis=0)
    wanted = LinearOneClassSVM(nu=0.1, tol=1e-8).fit(unit).decision_function(unit)
    np.testing.assert_allclose(scaled.decision_function(X), wanted, atol=1e-3 * np.abs(wanted).max())


def test_rows_around_the_origin_have_no_weights(rows):
    model = LinearOneClassSVM(nu=0.2).fit(rows - rows.mean(axis=0))
    assert model.converged_
    length = np.square(rows).sum(axis=1).mean() ** 0.5
    assert np.linalg.norm(model.coef_) < 1e-3 * 0.2 * len(rows) * length
    assert LinearOneClassSVM(nu=0.2).fit(np.zeros((5, 2))).predict([[1.0, 2.0]]) == 1


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_an_optimum_without_weights_is_known_at_once(layout):
    X = np.random.default_rng(0).normal(size=(9000, 8)) * np.logspace(0, 2, 8)
    model = LinearOneClassSVM(nu=0.4).fit(layout(X - X.mean(axis=0)))
    assert model.converged_ and model.n_iter_ == 1
    assert not model.coef_.any() and model.objective_ == 0 and model.duality_gap_ < 1e-9 * np.square(0.4 * len(X))
    model.fit(layout(X + np.logspace(-1, 1, 8)))
    assert model.converged_ and model.n_iter_ <= 3 and not model.coef_.any()


def test_newton_steps_follow_where_rounds_are_slow(thin):
    model = LinearOneClassSVM(nu=0.1, tol=1e-7).fit(thin)
    assert model.converged_ and model.n_iter_ < 50
    assert model.duality_gap_ <= 1e-7 * abs(model.objective_)
    wanted = OneClassSVM(kernel="linear", nu=0.1, tol=1e-6).fit(thin).objective_
    assert model.objective_ == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("X", [np.ones((40, 3)), np.eye(40), np.tile(np.eye(8), (5, 1))], ids=["same", "apart", "some"])
@pytest.mark.usefixtures("unmerged")
def test_rows_that_are_alike(X):
    model = LinearOneClassSVM(nu=0.25, tol=1e-9).fit(X)
    n_different = len(np.unique(X, axis=0))
    assert model.objective_ == pytest.approx(-50 * np.square(X).sum(axis=1)[0] / n_different, rel=1e-8)


# --- files, and fits that end early ----------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_rows_on_disk(layout, rows, stored):
    in_memory = LinearOneClassSVM(nu=0.1, tol=1e-6).fit(layout(rows))
    model = LinearOneClassSVM(nu=0.1, tol=1e-4, memory=6000, window_visits=2).fit(stored(layout(rows)))
    assert model.converged_ and model.n_iter_ > 1
    assert model.objective_ == pytest.approx(in_memory.objective_, rel=2e-4)
    assert model.objective_ == pytest.approx(objective(model, rows, 0.1), rel=1e-9)
    assert model.duality_gap_ <= 1e-4 * abs(model.objective_)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_fit_that_ended_early_is_resumed_with_the_same_bits(where, rows, stored):
    X = rows if where == "memory" else stored(rows)
    given = {"nu": 0.1, "tol": 1e-7, "random_state": 0, "memory": 6000, "window_visits": 1}
    whole = LinearOneClassSVM(max_iter=15, **given)
    model = LinearOneClassSVM(max_iter=4, warm_start=True, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole.fit(X)
        model.fit(X)
        assert model.stop_reason_ == "max_iter" and model.n_iter_ == 4
        model = pickle.loads(pickle.dumps(model)).set_params(max_iter=15).fit(X)
    np.testing.assert_array_equal(model.history_["epoch"], whole.history_["epoch"])
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.offset_, whole.offset_)


def test_a_warm_start_takes_the_variables_of_another_share(rows):
    model = LinearOneClassSVM(nu=0.1, warm_start=True, random_state=0).fit(rows)
    again = model.set_params(nu=0.11, tol=1e-7).fit(rows)
    assert again.objective_ == pytest.approx(LinearOneClassSVM(nu=0.11, tol=1e-8).fit(rows).objective_, rel=2e-7)


def test_a_fit_without_time_says_so_and_has_bounds(rows):
    with pytest.warns(ConvergenceWarning, match="LinearOneClassSVM stopped before it converged"):
        model = LinearOneClassSVM(nu=0.1, max_time=1e-9, tol=1e-9).fit(rows)
    wanted = LinearOneClassSVM(nu=0.1, tol=1e-8).fit(rows).objective_
    assert model.dual_objective_ <= wanted <= model.objective_
    with pytest.warns(ConvergenceWarning, match=r"try: raise max_iter or tol\.$"):
        LinearOneClassSVM(nu=0.1, max_iter=1, tol=1e-9).fit(rows)


@pytest.mark.parametrize("standardize", [False, True])
def test_a_saved_model_predicts_the_same(standardize, rows, tmp_path):
    model = LinearOneClassSVM(nu=0.2, standardize=standardize).fit(sparse.csr_array(rows))
    fastsvm.save(model, tmp_path / "model")
    again = fastsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize(
    ("given", "X", "words"),
    [
        ({"nu": 0.0}, np.ones((3, 2)), r"'nu'.*\(0.0, 1.0\]"),
        ({"nu": 1.1}, np.ones((3, 2)), "'nu'"),
        ({"tol": 0.0}, np.ones((3, 2)), "'tol'"),
        ({}, [[1.0, np.nan]], "NaN"),
        ({}, [[1e200, 1.0], [1.0, 1.0]], "overflow"),
    ],
    ids=["nu 0", "nu above 1", "tol", "NaN", "too large"],
)
def test_bad_input_is_named(given, X, words):
    with pytest.raises(ValueError, match=words):
        LinearOneClassSVM(**given).fit(X)
