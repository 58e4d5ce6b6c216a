"""Large working sets, which are solved by working sets of their own, on rows that are stored or recomputed."""

import naive
import numpy as np
import pytest
from grams import float_gram

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.rows import RecomputedRows, RowCache
from fastsvm.solvers.kernel_dual import dual_gradient
from fastsvm.solvers.kernel_dual.coordinate_ascent import Coordinate
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.tuning import changed, tuned


@pytest.fixture
def small():
    """Sets of a hundred rows have sets of their own."""
    with tuned(changed({"kernel": {"block_rows": 40, "working_set": 20, "many_sets": 5}})):
        yield


def rows_of(n, noise=0.5):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 7))
    return X, np.where(X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


def solved(solver):
    sets = []
    state, reason, _ = drive(
        solver, solver.init(), Limits(10**7, np.inf), lambda state, report: sets.append(len(state.working_set))
    )
    return solver.finish(state), reason, sets


def test_steps_in_float32_see_gaps_beside_large_targets():
    """Targets of 1e6 are known to .06 in float32. A constant in all of them moves the intercept alone."""
    X, y = rows_of(600)
    upper = np.full(600, 1.0)
    with Pool.open() as pool:
        gram = float_gram(X, pool, dtype=np.float32)
        found = [
            solved(SMO(KernelProblem(y, upper, y + far), RecomputedRows(gram), 1e-3, 150, pool, 0))
            for far in (0.0, 1e6)
        ]
    assert [reason for _, reason, _ in found] == [StopReason.CONVERGED] * 2
    near, far = (solution for solution, _, _ in found)
    assert near.kkt_violation <= 1e-3 and far.kkt_violation <= 1e-3
    assert far.intercept == pytest.approx(near.intercept + 1e6, abs=0.01)


def test_steps_stall_if_the_rounding_of_gradients_is_larger_than_the_tolerance():
    X, y = np.array([[0.0], [1e4]]), np.array([1.0, -1.0])
    with Pool.open() as pool:
        rows = RecomputedRows(float_gram(X, pool))
        found, reason, _ = solved(SMO(KernelProblem(y, np.full(2, 1e6), y), rows, 1e-20, 2, pool))
    assert found.kkt_violation > 1e-20 and reason is StopReason.STALLED


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("method", "C", "dtype", "nested"),
    [(*case, (np.float32, np.float64)[(i + nested) % 2], nested)
     for i, case in enumerate([(SMO, 0.1), (SMO, 10.0), (SMO, 1e3), (Coordinate, 0.1), (Coordinate, 10.0)])
     for nested in (False, True)],
)  # fmt: skip
def test_the_optimum_is_that_of_small_sets(method, C, dtype, nested, choose):
    """Kernel values among the rows of a large set are computed again and again, or once, which few sets need then."""
    choose(kernel={"nested_ns": 9.0 if nested else 0.0})
    X, y = rows_of(600)
    upper = np.full(600, C)
    with Pool.open() as pool:
        solver = method(KernelProblem(y, upper, y), RecomputedRows(float_gram(X, pool, dtype=dtype)), 1e-4, 150, pool)
        found, reason, sets = solved(solver)
        K = np.empty((600, 600))
        float_gram(X, pool).rows(np.arange(600), K, np.arange(600))
    assert reason is StopReason.CONVERGED
    if C >= 1e3:  # where many are free, sets are larger
        assert max(sets) > 100
    elif C < 1:
        assert max(sets) > 40 if nested else max(sets) <= 40
    assert naive.kkt_violation(K, y, upper, found.alpha, method is SMO) <= 1.1e-4
    assert found.objective == pytest.approx(naive.dual_objective(K, y, found.alpha), rel=1e-6)


@pytest.mark.usefixtures("small")
def test_errors_of_float32_are_corrected_where_they_matter(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rows_of(900)
    X = X + 30 * rng.normal(size=7)
    corrected, real = [], dual_gradient.DualGradient._correct

    def seen(self, state, support, done, error):
        most = real(self, state, support, done, error)
        corrected.append(int(done.sum()))
        return most

    monkeypatch.setattr(dual_gradient.DualGradient, "_correct", seen)
    upper = np.full(900, 300.0)
    with Pool.open() as pool:
        solver = SMO(KernelProblem(y, upper, y), RecomputedRows(float_gram(X, pool, dtype=np.float32)), 1e-3, 150, pool)
        found, reason, _ = solved(solver)
        K = np.empty((900, 900))
        float_gram(X, pool).rows(np.arange(900), K, np.arange(900))
    assert reason is StopReason.CONVERGED
    assert 0 < min(corrected) < 900
    assert naive.kkt_violation(K, y, upper, found.alpha) <= 1.1e-3
    assert found.kkt_violation == pytest.approx(naive.kkt_violation(K, y, upper, found.alpha), abs=1e-6)


@pytest.mark.parametrize(("share", "C", "tol"), [(0.048, 10.0, 3e-4), (0.019, 300.0, 1e-3)])
def test_errors_of_float32_are_made_up_for_where_values_in_float64_are_dear(share, C, tol, monkeypatch):
    """The gap is smaller by what errors of F add to the violation, be they large or small beside the tolerance."""
    X, y = rows_of(1000)
    upper, gradient = np.full(1000, C), dual_gradient.DualGradient
    exactly, deciding = gradient._set_exactly, gradient._deciding
    monkeypatch.setattr(gradient, "_set_exactly", lambda *given: max(exactly(*given), share * tol))
    monkeypatch.setattr(gradient, "_deciding", lambda *given: deciding(*given)[::8])  # other rows violate, too
    with Pool.open() as pool:
        with tuned(changed({"kernel": {"cheap_ns": 0.0}})):
            rows = RowCache(float_gram(X, pool, dtype=np.float32), np.empty(1000 * 1000 * 4, np.uint8))
        solver = SMO(KernelProblem(y, upper, y), rows, tol, 150, pool, 0)
        found, reason, _ = solved(solver)
        K = np.empty((1000, 1000))
        float_gram(X, pool).rows(np.arange(1000), K, np.arange(1000))
    doubt = solver.gradient.doubt
    assert reason is StopReason.CONVERGED and 0 < doubt <= 0.25 * tol
    assert naive.kkt_violation(K, y, upper, found.alpha) <= found.kkt_violation <= tol


def test_fits_without_cached_rows():
    """Many rows of few features: no kernel row is stored, and the model is that of a fit that stores them."""
    X, labels = rows_of(3500)
    model = SVC(C=3.0, gamma=0.05, tol=1e-5).fit(X, labels)
    assert not np.any(model.history_["cache_hits"])
    with tuned(changed({"kernel": {"recomputed_ns": 0.0}})):
        wanted = SVC(C=3.0, gamma=0.05, tol=1e-5).fit(X, labels)
    assert np.any(wanted.history_["cache_hits"])
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("method", [SMO, Coordinate])
def test_rows_are_computed_only_for_samples_whose_multipliers_changed(method):
    X, y = rows_of(900)
    upper, changed, K = np.full(900, 10.0), np.zeros(900, bool), np.empty((900, 900))
    with Pool.open() as pool:
        rows = RowCache(float_gram(X, pool), np.empty(900 * 900 * 8, np.uint8))
        solver = method(KernelProblem(y, upper, y), rows, 1e-4, 60, pool, 0)
        state = solver.init()
        for _ in range(30):
            before = state.alpha.copy()
            state, _ = solver.step(state, 10**7)
            changed |= state.alpha != before
        assert rows.counts.rows_computed == changed.sum() < 900
        solution, reason, _ = solved(method(KernelProblem(y, upper, y), rows, 1e-4, 60, pool, 0))
        float_gram(X, pool).rows(np.arange(900), K, np.arange(900))
    assert reason is StopReason.CONVERGED
    assert naive.kkt_violation(K, y, upper, solution.alpha, method is SMO) <= 1.1e-4


@pytest.mark.parametrize("method", [SMO, Coordinate])
def test_rows_that_cannot_move_are_left_out_of_the_one_working_set(method, choose):
    """All rows begin as one working set. Most multipliers are at a bound, where they stay."""
    choose(kernel={"newton": False})
    X, y = rows_of(600)
    upper = np.full(600, 1.0)
    with Pool.open() as pool:
        gram = float_gram(X, pool)
        rows = RowCache(gram, np.empty(600 * 600 * 8, np.uint8))
        found, reason, sets = solved(method(KernelProblem(y, upper, y), rows, 1e-5, 600, pool))
        K = np.empty((600, 600))
        gram.rows(np.arange(600), K, np.arange(600))
    assert reason is StopReason.CONVERGED
    assert sets[0] == 600 and min(sets) < 300
    assert naive.kkt_violation(K, y, upper, found.alpha, method is SMO) <= 1.1e-5
