import naive
import numpy as np
import pytest
from naive import problem
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PrecomputedPairwise
from fastsvm.kernel_matrix.row_cache import RowCache
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_primal.newton import Method
from fastsvm.solvers.kernel_primal.reduced_set import Landmarks
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource

NO_LIMITS = Limits(2000, np.inf)


def solve(K, y, upper, m, squared=False, fit_intercept=True, tol=1e-6, alpha=None, limits=NO_LIMITS):
    """Return the solution, why it ended, and the landmarks."""
    with Pool.open() as pool:
        arena = np.empty(max(m, 2) * K.nbytes // len(y), np.uint8)
        rows = RowCache(Gram(PrecomputedPairwise(np.arange(len(y))), MemorySource.of(K), pool), arena)
        method = Method(squared, fit_intercept, 2000, np.random.default_rng(0))
        solver = Landmarks(KernelProblem(y, upper, y), rows, tol, pool, method, n_landmarks=m)
        state, reason, _ = drive(solver, solver.init(alpha), limits, lambda state, report: False)
        return solver.finish(state), reason, solver._basis


def nystrom(K, landmarks):
    """Return the kernel matrix G K_MM⁻¹ Gᵀ."""
    G = K[:, landmarks]
    return G @ np.linalg.solve(K[np.ix_(landmarks, landmarks)], G.T)


squares = pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
intercepts = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])


@pytest.mark.parametrize("C", [0.1, 10.0])
@intercepts
@squares
def test_the_solution_is_that_of_the_low_rank_kernel(squared, fit_intercept, C):
    K, y, upper = problem(1, 40, C=C)
    upper = upper * np.random.default_rng(1).choice([0.5, 1.0, 2.0], 40)
    found, reason, landmarks = solve(K, y, upper, 9, squared, fit_intercept)
    low_rank = nystrom(K, landmarks)
    ridge, most = (np.diag(1 / (2 * upper)), np.full(40, 1e6)) if squared else (0.0, upper)
    alpha, _, wanted = naive.solve_dual(low_rank + ridge, y, most, fit_intercept)
    assert reason is StopReason.CONVERGED
    assert found.objective == pytest.approx(wanted, rel=1e-6)
    beta = y * found.alpha
    assert np.flatnonzero(beta).tolist() == landmarks.tolist()
    np.testing.assert_allclose(K @ beta, low_rank @ (alpha * y), atol=1e-3)
    objective = naive.primal_objective(K, y, upper, beta, found.intercept, squared)
    assert found.objective == pytest.approx(objective, rel=1e-9)
    assert objective - wanted <= found.duality_gap + 1e-9 * wanted
    assert found.duality_gap <= 1e-4 * wanted
    assert found.kkt_violation <= 1e-6
    margins = y * (K @ beta + found.intercept)
    near = np.abs(margins - 1) < 1e-5
    np.testing.assert_array_equal(found.within[~near], margins[~near] < 1)
    assert np.count_nonzero(found.within[near]) >= 0.9 * np.count_nonzero(near)


@pytest.mark.parametrize("parameters", [{}, {"C": 30.0}, {"gamma": 3.0}], ids=str)
def test_the_model_is_that_of_smo_with_the_low_rank_kernel(parameters, overlapping):
    X, y = overlapping
    parameters = {"gamma": 0.5, "tol": 1e-6} | parameters
    found = SVC(solver="primal", n_components=15, random_state=3, **parameters).fit(X, y)
    K, Z = rbf_kernel(X, gamma=parameters["gamma"]), X[::7] + 0.1
    G, square = K[:, found.support_], K[np.ix_(found.support_, found.support_)]
    wanted = SVC(kernel="precomputed", **parameters).fit(nystrom(K, found.support_), y)
    assert len(found.support_) == 15
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    between = rbf_kernel(Z, X[found.support_], gamma=parameters["gamma"]) @ np.linalg.solve(square, G.T)
    np.testing.assert_allclose(found.decision_function(Z), wanted.decision_function(between), atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_components", [150, 151, 10**6])
def test_all_rows_as_landmarks_are_the_whole_problem(n_components, loss, overlapping):
    X, y = overlapping
    wanted = SVC(solver="primal", loss=loss, tol=1e-6).fit(X, y)
    found = SVC(solver="primal", loss=loss, tol=1e-5, n_components=n_components).fit(X, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-3)


def test_more_landmarks_come_nearer(overlapping):
    X, y = overlapping
    whole = SVC(solver="primal", tol=1e-6).fit(X, y).objective_
    found = [SVC(solver="primal", n_components=m, tol=1e-6).fit(X, y).objective_ for m in (5, 40, 120)]
    assert found[0] > found[1] > found[2] > whole


def test_landmarks_are_those_of_the_seed(overlapping):
    def support(seed):
        return SVC(solver="primal", n_components=10, random_state=seed).fit(*overlapping).support_.tolist()

    assert support(1) == support(1) != support(2)
    assert support(None) == support(None)


def test_each_pair_of_classes_has_landmarks_of_its_own(three_classes):
    X, y = three_classes
    model = SVC(solver="primal", n_components=10, decision_function_shape="ovo").fit(X, y)
    per_pair = [(np.abs(coef) > 0).sum() for coef in model._coefficients().T]
    assert per_pair == [10, 10, 10]


@squares
def test_many_rows_are_multiplied_in_pieces(squared):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=5000) > 0.7, 1, -1)
    loss = "squared_hinge" if squared else "hinge"
    model = SVC(solver="primal", loss=loss, n_components=150, gamma=0.5, tol=1e-4).fit(X, y)
    K = rbf_kernel(X, X[model.support_], gamma=0.5)
    beta, sums = model.dual_coef_[0], K @ model.dual_coef_[0]
    slack = np.maximum(0, 1 - y * (sums + model.intercept_[0])) ** (2 if squared else 1)
    assert model.objective_ == pytest.approx(beta @ sums[model.support_] / 2 + slack.sum(), rel=1e-9)
    assert model.duality_gap_ <= 1e-4 * model.objective_


def test_repeated_landmarks(overlapping):
    X, y = (np.repeat(values[:40], 5, axis=0) for values in overlapping)
    found = SVC(solver="primal", n_components=100, tol=1e-4).fit(X, y)  # of 40 rows that differ
    wanted = SVC(solver="primal", tol=1e-6).fit(X, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-4)


def test_a_tolerance_that_rounding_does_not_allow_is_told(overlapping):
    model = SVC(solver="primal", n_components=100, gamma=1e-3, tol=1e-14)
    with pytest.warns(ConvergenceWarning, match="stalled"):
        model.fit(*overlapping)
    assert np.isfinite(model.decision_function(overlapping[0])).all()


@squares
def test_an_early_stop_is_certified_by_a_gap_that_is_not_too_small(squared):
    K, y, upper = problem(9, 100)
    best = solve(K, y, upper, 12, squared)[0].objective
    for n_steps in (1, 2, 3):
        found, reason, _ = solve(K, y, upper, 12, squared, limits=Limits(n_steps, np.inf))
        assert reason is StopReason.MAX_ITER
        assert found.duality_gap >= found.objective - best - 1e-9 > 0


def test_any_beginning_leads_to_the_same_end():
    K, y, upper = problem(12, 60)
    wanted = solve(K, y, upper, 12)[0].objective
    for seed in range(5):
        begin = np.random.default_rng(seed).uniform(-1, 2, 60)
        found, reason, _ = solve(K, y, upper, 12, alpha=begin)
        assert reason is StopReason.CONVERGED
        assert found.objective == pytest.approx(wanted, rel=1e-6)


def test_too_little_memory_is_refused_with_what_is_needed():
    X = np.random.default_rng(0).normal(size=(3000, 3))
    model = SVC(solver="primal", n_components=2000, memory="20MB")
    words = r"n_components=2000 needs 192 MB.*leave 0 MB for the 48 MB.*lower n_components"
    with pytest.raises(ValueError, match=words):
        model.fit(X, X[:, 0] > 0)
    assert len(model.set_params(n_components=100).fit(X, X[:, 0] > 0).support_) == 100
