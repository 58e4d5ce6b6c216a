import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import cache
from naive import problem
from scipy import optimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.kernels import RBF
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_primal.certificate import DualView, MarginLoss
from fastsvm.solvers.kernel_primal.newton import (
    Line,
    Primal,
    RidgeSystem,
    best_intercept,
    best_length,
    slope_near,
)
from fastsvm.solvers.kernel_primal.subgradient_descent import PrimalDescent
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource

NO_LIMITS = Limits(2000, np.inf)


def solve(K, y, upper, fit_intercept=True, tol=1e-8, most=2000, n_slots=None, alpha=None, limits=NO_LIMITS, seen=None):
    """Return the solution, why it ended, and the number of Newton steps, for a kernel matrix in its type."""
    with Pool.open() as pool:
        solver = Primal(KernelProblem(y, upper, y), cache(K, pool, n_slots), tol, pool, fit_intercept, most)

        def watch(state, report):
            if seen is not None:
                seen.append(report)
            return False

        state, reason, n_steps = drive(solver, solver.init(alpha), limits, watch)
    return solver.finish(state), reason, n_steps


def check(solution, reason, K, y, upper, fit_intercept=True, tol=1e-8, wanted=None):
    """The dual's constraints are satisfied, and the certificate is that of a computation from scratch."""
    assert reason is StopReason.CONVERGED
    alpha, Q, most = solution.alpha, K + np.diag(1 / (2 * upper)), np.full(len(upper), np.inf)
    assert (alpha >= 0).all()
    if fit_intercept:
        assert abs(alpha @ y) <= 1e-11 * max(1, alpha.max()) * len(y)
    else:
        assert solution.intercept == 0
    violation = naive.kkt_violation(Q, y, most, alpha, balanced=fit_intercept)
    objective = naive.primal_objective(K.astype(float), y, upper, alpha * y, solution.intercept, True)
    scale = max(1.0, abs(objective))
    assert violation <= tol + 1e-10 * scale
    assert solution.kkt_violation == pytest.approx(violation, abs=1e-10 * scale)
    assert solution.objective == pytest.approx(objective, abs=1e-10 * scale)
    gap = objective - naive.dual_objective(Q, y, alpha)
    assert gap - 1e-9 * scale <= solution.duality_gap <= gap + 1e-8 * scale
    if wanted is not None:
        assert solution.objective == pytest.approx(wanted, rel=1e-6)


intercepts = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "none"])

# --- the solution ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "C"), list(enumerate([0.1, 1.0, 10.0])))
@intercepts
def test_the_solution_is_that_of_a_general_solver(fit_intercept, seed, C):
    K, y, upper = problem(seed, 24, C=C)
    beta, intercept, objective = naive.solve_primal(K, y, upper, True, fit_intercept)
    solution, reason, _ = solve(K, y, upper, fit_intercept, 1e-9)
    check(solution, reason, K, y, upper, fit_intercept, 1e-9, objective)
    np.testing.assert_allclose(K @ (solution.alpha * y), K @ beta, atol=1e-4)
    assert solution.intercept == pytest.approx(intercept, abs=1e-4)


@intercepts
def test_the_squared_hinge_is_a_hard_margin_with_a_ridge_on_the_kernel(fit_intercept):
    K, y, upper = problem(3, 40)
    upper = upper * np.random.default_rng(0).choice([0.5, 1.0, 2.0], 40)
    alpha, _, objective = naive.solve_dual(K + np.diag(1 / (2 * upper)), y, np.full(40, 1e6), fit_intercept)
    solution, reason, _ = solve(K, y, upper, fit_intercept)
    check(solution, reason, K, y, upper, fit_intercept, wanted=objective)
    np.testing.assert_allclose(solution.alpha, alpha, atol=1e-5)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    C=st.sampled_from([1e-3, 0.1, 1.0, 1e3]),
    gamma=st.sampled_from([1e-3, 0.5, 50.0]),
    tol=st.sampled_from([1e-3, 1e-6]),
    fit_intercept=st.booleans(),
)
def test_any_problem(seed, n, C, gamma, tol, fit_intercept):
    K, y, upper = problem(seed, n, gamma, C)
    upper = upper * np.random.default_rng(seed).choice([0.5, 1.0, 2.0], n)
    solution, reason, _ = solve(K, y, upper, fit_intercept, tol)
    check(solution, reason, K, y, upper, fit_intercept, tol)


@pytest.mark.parametrize("C", [1.0, 30.0])
@intercepts
def test_conjugate_gradients_lead_to_the_same(fit_intercept, C):
    K, y, upper = problem(5, 100, C=C)
    wanted = solve(K, y, upper, fit_intercept)[0].objective
    for most, n_slots in ((0, None), (20, None), (2000, 7)):
        solution, reason, _ = solve(K, y, upper, fit_intercept, 1e-6, most, n_slots)
        check(solution, reason, K, y, upper, fit_intercept, 1e-6, wanted)


def test_a_start_on_some_rows_leads_to_the_same():
    K, y, upper = problem(5, 200)
    wanted = solve(K, y, upper)[0].objective
    for n_slots in (60, 90):  # as many rows are those of the start
        solution, reason, _ = solve(K, y, upper, n_slots=n_slots)
        check(solution, reason, K, y, upper, wanted=wanted)


def test_repeated_rows():
    K, y, upper = problem(7, 30)
    many = np.repeat(np.arange(30), 5)
    wanted = solve(K, y, 5 * upper)[0].objective
    K, y, upper = np.ascontiguousarray(K[np.ix_(many, many)]), y[many], upper[many]
    solution, reason, _ = solve(K, y, upper)
    check(solution, reason, K, y, upper, wanted=wanted)


def test_float32_kernel_values():
    K, y, upper = problem(8, 100)
    solution, reason, _ = solve(K.astype(np.float32), y, upper, tol=1e-4)
    check(solution, reason, K.astype(np.float32), y, upper, tol=1e-4)
    assert solution.objective == pytest.approx(solve(K, y, upper)[0].objective, rel=1e-4)


@pytest.mark.parametrize("n_steps", [2, 4])
def test_an_early_end_with_float32_values_is_certified_by_float64_ones(n_steps):
    rng = np.random.default_rng(0)
    X = (rng.random((300, 12)) < 0.4).astype(np.float64)
    y = np.where(X[:, :6].sum(axis=1) + rng.normal(size=300) > 2.4, 1.0, -1.0)
    upper, tol = np.full(300, 300.0), 1e-3
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.037), np.float32, None, False), MemorySource.of(X), pool)
        rows = RowCache(gram, np.empty(300 * 300 * 4, np.uint8))
        solver = Primal(KernelProblem(y, upper, y), rows, tol, pool, True, 300)
        state, reason, _ = drive(solver, solver.init(), Limits(n_steps, np.inf), lambda state, report: False)
        found = solver.finish(state)
    assert reason is StopReason.MAX_ITER
    K = naive.kernel_matrix("rbf", X, X, gamma=0.037)
    objective = naive.primal_objective(K, y, upper, found.alpha * y, found.intercept, True)
    assert found.objective == pytest.approx(objective, rel=1e-9)
    near = DualView(KernelProblem(y, upper, y), True, True).feasible(found.alpha)
    K += np.diag(1 / (2 * upper))
    gap = objective - naive.dual_objective(K, y, near)
    assert gap * (1 - 1e-9) <= found.duality_gap <= gap + 1e-8 * objective
    assert found.kkt_violation == pytest.approx(naive.kkt_violation(K, y, np.full(300, np.inf), near), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
@intercepts
def test_a_tolerance_near_rounding_is_met_without_a_stall(fit_intercept, seed):
    K, y, upper = problem(seed, 100, gamma=5.0, C=0.1)
    for most in (0, 2000):
        solution, reason, _ = solve(K, y, upper, fit_intercept, 1e-11, most=most)
        check(solution, reason, K, y, upper, fit_intercept, 1e-11)


def test_multipliers_off_balance_are_corrected_where_they_are_free():
    y, upper = np.array([1.0, 1.0, 1.0, -1.0, -1.0]), np.ones(5)
    view = DualView(KernelProblem(y, upper, y), squared=False, fit_intercept=True)
    found = view.feasible(np.array([1.0, 0.5, 0.0, 1.0, 0.25]))
    np.testing.assert_allclose(found, [1.0, 0.25, 0.0, 1.0, 0.25], rtol=1e-14)
    assert found[0] == found[3] == 1
    found = view.feasible(np.array([1.0, 0.5, 1.0, 0.25, 0.25]))  # those that are free do not suffice
    assert found @ y == pytest.approx(0, abs=1e-14)
    assert ((found >= 0) & (found <= 1)).all()


# --- beginnings and ends ---------------------------------------------------------------------------------


def test_a_solution_is_where_the_next_solve_ends_at_once():
    K, y, upper = problem(11, 80)
    first, _, n_first = solve(K, y, upper)
    again, reason, n_again = solve(K, y, upper, alpha=first.alpha)
    check(again, reason, K, y, upper, wanted=first.objective)
    assert n_again <= min(n_first, 1)


@given(seed=st.integers(0, 10**6))
def test_any_beginning_leads_to_the_same_end(seed):
    K, y, upper = problem(12, 40)
    begin = np.random.default_rng(seed).uniform(-1, 2, 40)
    solution, reason, _ = solve(K, y, upper, alpha=begin)
    check(solution, reason, K, y, upper, wanted=solve(K, y, upper)[0].objective)


def test_an_early_stop_is_certified_by_a_gap_that_is_not_too_small():
    K, y, upper = problem(9, 100)
    best = solve(K, y, upper)[0].objective
    for n_steps in (1, 2, 3):
        solution, reason, taken = solve(K, y, upper, limits=Limits(n_steps, np.inf))
        assert (reason, taken) == (StopReason.MAX_ITER, n_steps)
        objective = naive.primal_objective(K, y, upper, solution.alpha * y, solution.intercept, True)
        assert solution.objective == pytest.approx(objective, rel=1e-10)
        assert solution.duality_gap >= objective - best - 1e-9 > 0


@pytest.mark.parametrize("seed", range(12))
def test_the_objective_is_that_of_the_multipliers_where_little_is_left_of_sums(seed):
    rng = np.random.default_rng(seed)
    X = 10 ** rng.uniform(-3, 2, 4) * rng.integers(0, 256, (28, 4))
    y = np.where(rng.random(28) < 0.5, 1.0, -1.0)
    upper = 100 * 10 ** rng.uniform(-6, 6, 28)
    K = X @ X.T
    found, _, _ = solve(K, y, upper, tol=1e-5, limits=Limits(200, np.inf))
    beta = found.alpha * y
    sums = K.astype(np.longdouble) @ beta
    slack = np.maximum(0, 1 - y * (sums + found.intercept))
    rounding = 28 * np.finfo(float).eps * np.abs(K) @ found.alpha
    objective = float(beta @ sums / 2 + upper @ slack**2)
    rounded = float(
        rounding @ found.alpha + upper @ np.where(slack + rounding > 0, rounding * (2 * slack + rounding), 0)
    )
    assert found.objective == pytest.approx(objective, abs=rounded)
    assert found.duality_gap >= 0


def test_multipliers_that_were_made_feasible_are_certified_as_they_are(monkeypatch):
    K, y, upper = problem(0, 40)
    with Pool.open() as pool:
        solver = Primal(KernelProblem(y, upper, y), cache(K, pool), 1e-6, pool, True, 100)
        state, reason, _ = drive(solver, solver.init(), NO_LIMITS, lambda state, report: False)
        monkeypatch.setattr(DualView, "feasible", lambda view, alpha: 0.5 * alpha)  # rounding does so, by a little
        check(solver.finish(state), reason, K, y, upper, tol=1e-6)


@pytest.mark.parametrize("given", [{"loss": "squared_hinge"}, {"learning_rate": 1e-3}], ids=str)
def test_what_sums_lost_on_the_way_is_in_no_certificate(given, overlapping, monkeypatch):
    X, y = overlapping
    model = SVC(solver="primal", max_iter=3, tol=1e-9, **given)
    kind = PrimalDescent if "learning_rate" in given else Primal
    finish = kind.finish

    def lose(solver, state):
        return finish(solver, state._replace(sums=0.9 * state.sums))

    with pytest.warns(ConvergenceWarning):
        wanted = clone(model).fit(X, y)
    monkeypatch.setattr(kind, "finish", lose)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.objective_ == wanted.objective_
    assert model.kkt_violation_ == wanted.kkt_violation_
    assert model.duality_gap_ == wanted.duality_gap_


def test_the_objective_of_the_squared_hinge_never_rises():
    K, y, upper = problem(10, 150, C=100.0)
    seen = []
    solve(K, y, upper, seen=seen)
    values = [report.objective for report in seen]
    assert len(values) > 3
    assert np.diff(values).max() <= 1e-9 * max(values)


def test_a_kernel_that_is_not_positive_is_refused(overlapping):
    with pytest.raises(ValueError, match=r"kernel that is positive semi-definite.*solver='smo'"):
        SVC(kernel="sigmoid", gamma=0.5, solver="primal", loss="squared_hinge", C=100.0).fit(*overlapping)


# --- support vectors -------------------------------------------------------------------------------------


def test_support_vectors_are_the_rows_on_and_within_the_margin(overlapping):
    X, y = overlapping
    model = SVC(solver="primal", loss="squared_hinge", tol=1e-9).fit(X, y)
    margins = np.where(y == 1, 1, -1) * model.decision_function(X)
    np.testing.assert_array_equal(model.within_margin_, np.flatnonzero(margins <= 1 + 1e-8))
    np.testing.assert_array_equal(np.sort(model.support_), model.within_margin_)


squared_hinge = MarginLoss(squared=True)
Z = np.linspace(-3, 3, 241)

# --- losses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
def test_a_loss_and_how_fast_it_falls(squared):
    loss, step = MarginLoss(squared), 1e-5
    np.testing.assert_allclose(loss.value(Z), np.maximum(0, 1 - Z) ** (1 + squared), rtol=1e-14)
    z = Z[np.abs(Z - 1) > 1e-4]
    np.testing.assert_allclose(
        loss.fall(z), (loss.value(z - step) - loss.value(z + step)) / (2 * step), rtol=1e-6, atol=1e-7
    )
    assert loss.fall(np.ones(1)) == 0


# --- minima along a line ---------------------------------------------------------------------------------


def least(function, low, high):
    """Return the least value of a convex function."""
    return optimize.minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-11}).fun


def draw(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 40)
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1, -1
    upper = rng.uniform(0.1, 3, n) * 10 ** rng.uniform(-2, 2)
    return rng, KernelProblem(y, upper, y), 3 * rng.normal(size=n)


@given(seed=st.integers(0, 10**6))
def test_the_best_intercept_has_the_least_loss(seed):
    _, problem, scores = draw(seed)

    def total(shift):
        return problem.upper @ squared_hinge.value(problem.y * (scores + shift))

    found = total(best_intercept(problem, scores))
    assert found <= least(total, -40, 40) * (1 + 1e-9) + 1e-9


def test_the_best_intercept_of_one_class_has_no_loss():
    problem = KernelProblem(np.ones(3), np.ones(3), np.ones(3))
    scores = np.array([-5.0, 0.0, 2.0])
    assert squared_hinge.value(scores + best_intercept(problem, scores)).max() <= 1e-20


@given(seed=st.integers(0, 10**6), curved=st.booleans())
def test_the_best_length_has_the_least_objective_unless_one_is_good_enough(seed, curved):
    rng, problem, scores = draw(seed)
    line = Line(scores, rng.normal(size=len(scores)), 5 * rng.normal(), 5 * rng.random() * curved)

    def objective(t):
        margins = problem.y * (scores + t * line.direction)
        return problem.upper @ squared_hinge.value(margins) + line.slope * t + line.curvature * t * t / 2

    slope = slope_near(problem, line, 0.0)[0]
    if slope >= 0 or objective(1e4) < objective(9e3):  # it does not fall at all, or has no end
        return
    length = best_length(problem, line)
    if length == 1:
        assert objective(1) <= objective(0) * (1 + 1e-15) + 0.25 * slope
        return
    found = objective(length)
    assert found <= min(least(objective, 0, end) for end in (0.1, 3, 100, 1e4)) + 1e-9 * max(1, abs(found))


def test_the_slope_at_the_start_is_that_of_differences():
    rng, problem, scores = draw(3)
    line = Line(scores, rng.normal(size=len(scores)), -0.7, 1.3)

    def objective(t):
        margins = problem.y * (scores + t * line.direction)
        return problem.upper @ squared_hinge.value(margins) + line.slope * t + line.curvature * t * t / 2

    wanted = (objective(1e-6) - objective(-1e-6)) / 2e-6
    assert slope_near(problem, line, 0.0)[0] == pytest.approx(wanted, rel=1e-6)


def test_one_is_taken_for_the_best_length_where_it_is_good_enough():
    line = Line(np.zeros(1), np.array([0.8]), 0.0, 0.0)
    assert best_length(KernelProblem(np.array([1.0]), np.array([1.0]), np.array([1.0])), line) == 1


def test_a_minimum_beyond_one_is_looked_for_but_not_far_beyond():
    problem = KernelProblem(np.ones(2), np.ones(2), np.ones(2))
    line = Line(np.array([0.9, 0.0]), np.array([1.0, 1e-3]), 0.0, 1e-9)  # the minimum is at 999.5
    assert best_length(problem, line) == pytest.approx(16, rel=1e-9)


@pytest.mark.parametrize("total", [None, 0.0, -2.5])
@pytest.mark.parametrize("most", [0, 100])
def test_systems_with_a_ridge(most, total):
    K, _, _ = problem(0, 50)
    rng = np.random.default_rng(0)
    inside = np.sort(rng.choice(50, 20, replace=False))
    ridge, wanted = rng.uniform(0.01, 2, 20), rng.normal(size=20)
    with Pool.open() as pool:
        x, b = RidgeSystem(cache(K, pool), pool, most).solve(inside, ridge, wanted, total, 1e-12)
    matrix = K[np.ix_(inside, inside)] + np.diag(ridge)
    np.testing.assert_allclose(matrix @ x + b, wanted, atol=1e-10)
    assert b == 0 if total is None else x.sum() == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("place", range(4))
def test_a_row_far_from_all_others_is_no_reason_to_refuse_a_kernel(place):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(18, 30))
    X[place] *= 1000
    X[12:] = X[4:10]
    K = (100 * X @ X.T) ** 5
    ridge, wanted = 10 ** rng.uniform(-15, -3, 18), rng.choice([-2.0, 2.0], 18)
    with Pool.open() as pool:
        x, _ = RidgeSystem(cache(K, pool, 9), pool, 9).solve(np.arange(18), ridge, wanted, None, 1e-3)
    assert np.isfinite(x).all()


def test_a_coarse_system_is_solved_to_its_accuracy_and_no_further():
    K, _, _ = problem(0, 80, gamma=2.0)
    inside, ridge, wanted = np.arange(80), np.full(80, 0.01), np.random.default_rng(0).normal(size=80)
    with Pool.open() as pool:
        found, _ = RidgeSystem(cache(K, pool), pool, 0).solve(inside, ridge, wanted, None, 1e-2)
    residual = (K + np.diag(ridge)) @ found - wanted
    assert 1e-8 < np.abs(residual).max() / np.abs(wanted).max() <= 0.1
