import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.exceptions import ConvergenceWarning

from fastsvm import LinearSVC, LogisticRegression, open_hdf5
from fastsvm._compiled.threads import Pool
from fastsvm.losses import LOSSES, Demands
from fastsvm.solvers.linear_dual.problem import LinearProblem, LinearSettings
from fastsvm.solvers.linear_primal.penalties import L1, L2
from fastsvm.solvers.linear_primal.proximal_newton import ProximalNewton
from fastsvm.sources import MemorySource
from fastsvm.tuning import LinearTuning

RNG = np.random.default_rng(3)


def made(loss, **parameters):
    """Return our estimator with an L1 penalty."""
    parameters = {"penalty": "l1", "tol": 1e-9} | parameters
    return LogisticRegression(**parameters) if loss == "log_loss" else LinearSVC(loss=loss, **parameters)


def liblinear(loss, C=1.0):
    """Return LIBLINEAR's estimator at a tight tolerance."""
    parameters = {"C": C, "tol": 1e-8, "max_iter": 100_000, "random_state": 0}
    if loss == "log_loss":
        l1 = {"penalty": "l1"} if linear_model.LogisticRegression().penalty == "l2" else {"l1_ratio": 1}  # before 1.8
        return linear_model.LogisticRegression(solver="liblinear", **parameters, **l1)
    return svm.LinearSVC(penalty="l1", dual=False, **parameters)


def objective(loss, model, X, y, C=1.0, weight=1.0):
    margin = np.where(y == model.classes_[1], 1, -1) * (X @ model.coef_[0] + model.intercept_[0])
    losses = np.logaddexp(0, -margin) if loss == "log_loss" else np.maximum(0, 1 - margin) ** 2
    return np.abs(model.coef_).sum() + abs(model.intercept_[0]) + C * (weight * losses).sum()


def noisy(n, d):
    X = RNG.standard_normal((n, d))
    return X, (X[:, :3].sum(axis=1) + RNG.standard_normal(n) > 0).astype(int)


CASES = {
    "more rows": (*noisy(200, 12), 1.0),
    "more features, in a working set": (*noisy(40, 300), 1.0),
    "sparse": (sparse.random(200, 400, 0.03, format="csr", random_state=0), np.arange(200) % 2, 3.0),
    "columns constant, zero and repeated": (np.tile(np.c_[noisy(60, 3)[0], np.ones(60), np.zeros(60)], 2), None, 1.0),
    "all zero": (np.zeros((9, 2)), np.arange(9) > 2, 1.0),
    "large C": (*noisy(100, 8), 1e6),
}


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_that_of_liblinear_and_the_dual_bounds_it(name, loss):
    X, y, C = CASES[name]
    y = np.arange(X.shape[0]) % 2 if y is None else y
    model, peer = made(loss, C=C).fit(X, y), liblinear(loss, C).fit(X, y)
    found, known = objective(loss, model, X, y, C), objective(loss, peer, X, y, C)
    assert model.converged_
    assert found <= known * (1 + 1e-8)
    assert model.objective_ == pytest.approx(found, rel=1e-10)
    assert found * (1 - 1e-8) <= model.dual_objective_ <= found * (1 + 1e-12)


def test_features_of_few_rows_in_large_working_sets_do_not_stop_the_fit():
    """Steps on the Hessian of a part of the rows did, with a gap of 99 %."""
    X = np.abs(RNG.standard_normal((3000, 300))) * (RNG.random((3000, 300)) < np.geomspace(1e-3, 1, 300))
    y = (X[:, ::7].sum(axis=1) + RNG.standard_normal(3000) > np.median(X[:, ::7].sum(axis=1))).astype(int)
    model = made("log_loss", standardize=True, tol=1e-6).fit(X, y)
    assert model.converged_
    assert model.duality_gap_ <= 1e-6 * model.objective_


@pytest.mark.parametrize("seed", [7, 11])
def test_weights_become_exactly_zero_at_the_end_of_a_step(seed):
    """With steps of length .9999 they did not quite, and the gap stayed at 1e-6."""
    rng = np.random.default_rng(seed)
    model = made("squared_hinge").fit(rng.standard_normal((60, 50)), rng.integers(0, 2, 60))
    assert model.converged_
    assert np.abs(model.coef_[model.coef_ != 0]).min() > 1e-5


def test_weights_of_samples_and_classes_are_repetitions():
    X, y = noisy(50, 4)
    times = RNG.integers(0, 4, 50)
    model = made("log_loss", class_weight={0: 2.0}).fit(X, y, times)
    repeated = np.repeat(np.arange(50), times * np.where(y == 0, 2, 1))
    other = made("log_loss").fit(X[repeated], y[repeated])
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-5)


def test_each_class_has_the_problem_that_it_has_alone():
    X, y = noisy(80, 5)
    y = y + (X[:, 4] > 0.5)
    model = made("squared_hinge").fit(X, y)
    for k in range(3):
        np.testing.assert_allclose(model.coef_[k], made("squared_hinge").fit(X, y == k).coef_[0], atol=1e-6)


def test_rows_in_a_file_give_the_weights_of_rows_in_memory(tmp_path):
    X, y = noisy(500, 300)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, y
    with open_hdf5(tmp_path / "rows.h5") as data:
        streamed = made("log_loss", tol=1e-11, memory=1_000_000).fit(data)  # a third is less than 1.2 MB
        assert streamed.history_["bytes_read"][-1] > X.nbytes * 3
    np.testing.assert_allclose(streamed.coef_, made("log_loss", tol=1e-11).fit(X, y).coef_, atol=1e-5)


def test_a_warm_start_begins_at_the_weights_and_a_resumed_fit_goes_on():
    X, y = noisy(100, 20)
    cold = made("log_loss").fit(X, y)
    warm = made("log_loss", warm_start=True).fit(X, y).fit(X, y)
    assert warm.n_iter_ == 0
    resumed = made("log_loss", warm_start=True, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        resumed.fit(X, y)
    resumed.set_params(max_iter=100).fit(X, y)
    np.testing.assert_array_equal(resumed.coef_, cold.coef_)
    assert resumed.n_iter_ == cold.n_iter_


def test_a_loss_with_a_kink_is_refused():
    with pytest.raises(ValueError, match=r"has a kink: pass one of .*squared_hinge"):
        LinearSVC(penalty="l1", loss="hinge").fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        LinearSVC(penalty="l1", multi_class="crammer_singer").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("penalty", [L1(), L2()])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("by_products", [False, True])
def test_a_step_ends_when_its_time_is_up(penalty, layout, by_products):
    """Also where directions come from products with the rows, which the penalty ½‖w‖² has."""
    tuning = LinearTuning(hessian_features=3) if by_products else LinearTuning()
    X, y = noisy(300, 8)
    demands, empty = Demands(2.0 * y - 1, np.ones(300), np.ones(1)), np.empty(0)
    problem = LinearProblem(MemorySource.of(layout(X)), empty, empty, LOSSES["log_loss"](), demands, 1.0)
    with Pool.open() as pool:
        solver = ProximalNewton(problem, LinearSettings(1e-9, deadline=0.0, tuning=tuning), pool, penalty, 1 << 20)
        after, report = solver.step(solver.init(), 5)
    assert not after.weights.any()
    assert after.models == ()
    assert not report.within


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_sweeps_over_sparse_columns_end_where_those_over_a_hessian_do(loss, choose):
    X = sparse.random(400, 3000, 0.01, format="csr", random_state=1)
    y = np.digitize(X @ np.random.default_rng(1).normal(size=3000), [-0.3, 0.4])
    found = made(loss, C=3.0).fit(X, y)
    choose(linear={"columns": False})
    wanted = made(loss, C=3.0).fit(X, y)
    assert found.converged_ and wanted.converged_
    np.testing.assert_allclose(found.objective_, wanted.objective_, rtol=1e-8)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("rows", ["dense", "sparse"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_a_bound_of_an_early_step_is_below_the_minimum(loss, rows):
    X, y = noisy(150, 700)
    X = X if rows == "dense" else sparse.csr_matrix(np.where(np.abs(X) > 1.5, X, 0.0))
    minimum = made(loss, C=5.0).fit(X, y).objective_
    for tol in (0.3, 0.03, 1e-3, 1e-5):
        found = made(loss, C=5.0, tol=tol).fit(X, y)
        assert found.dual_objective_ <= minimum * (1 + 1e-9)
        assert minimum * (1 - 1e-9) <= found.objective_ <= minimum / (1 - tol)


def test_nearly_as_many_weights_as_rows_with_a_loss():
    X, y = noisy(300, 600)
    found = made("squared_hinge", C=10.0).fit(X, y)
    assert found.converged_ and found.n_iter_ < 60
    np.testing.assert_allclose(found.objective_, objective("squared_hinge", found, X, y, 10.0), rtol=1e-9)
