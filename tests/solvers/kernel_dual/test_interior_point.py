import warnings

import naive
import numpy as np
import pytest
from naive import problem
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import PrecomputedPairwise
from fastsvm.kernel_matrix.rows import RowCache
from fastsvm.solvers.kernel_dual import decomposition, interior_point
from fastsvm.solvers.kernel_dual.coordinate_ascent import Coordinate
from fastsvm.solvers.kernel_dual.decomposition import moved
from fastsvm.solvers.kernel_dual.interior_point import badness, interior_solution
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.sources import MemorySource
from fastsvm.tuning import KernelTuning, changed, tuned

EPS = np.finfo(float).eps


def solve(K, y, upper, balanced=True, pool=None, **more):
    """Return what is found for a kernel matrix, which is left as it is."""
    return interior_solution(K.copy(), y, upper, y, balanced, pool or Pool(1), **more)


def check(found, K, y, upper, balanced=True, tol=1e-9):
    """What is found is feasible, at its bounds exactly or not at all, and violates no more than it says."""
    alpha = found.alpha
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    if balanced:
        assert abs(alpha @ y) <= 1e-13 * alpha.sum()
    violation = naive.kkt_violation(K, y, upper, alpha, balanced)
    assert violation <= tol
    rounding = EPS * (np.abs(K) @ alpha).max()
    assert found.rounding == pytest.approx(rounding, rel=1e-6)
    assert found.violation == pytest.approx(violation, abs=8 * rounding)


def linear(seed, n, d, scales=(0, 0)):
    """Return rows of `d` features, whose scales are powers of ten, their linear kernel and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** np.linspace(*scales, d)
    y = np.where(X[:, 0] / np.abs(X[:, 0]).max() + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1, -1
    return X, X @ X.T, y


# --- the solution ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize(("seed", "C"), list(enumerate([1e-3, 0.1, 1.0, 10.0])))
def test_the_solution_is_that_of_a_general_solver(seed, C, balanced):
    K, y, upper = problem(seed, 40, C=C)
    _, _, objective = naive.solve_dual(K, y, upper, balanced)
    found = solve(K, y, upper, balanced)
    check(found, K, y, upper, balanced)
    assert naive.dual_objective(K, y, found.alpha) == pytest.approx(objective, rel=1e-6)
    assert found.n_steps <= 40


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e30])
def test_a_kernel_in_another_unit_has_the_same_solution(scale):
    K, y, upper = problem(1, 60, C=5.0)
    wanted = solve(K, y, upper).alpha
    found = solve(scale * K, y, upper / scale)
    check(found, scale * K, y, upper / scale)
    np.testing.assert_allclose(found.alpha * scale, wanted, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.alpha == 0, wanted == 0)
    np.testing.assert_array_equal(found.alpha == upper / scale, wanted == 5.0)


@pytest.mark.parametrize("upper", [1e6, 1e12, 1e100])
def test_multipliers_that_are_small_beside_their_bound_are_not_lost(upper):
    K, y, _ = problem(1, 60)
    K = 1e20 * (K + np.diag(np.full(60, 0.1)))
    found = solve(K, y, np.full(60, upper))
    check(found, K, y, np.full(60, upper))
    free = found.alpha > 0
    assert 0 < found.alpha[free].max() <= 1e-15
    np.testing.assert_allclose(found.alpha, solve(K, y, np.full(60, 1.0)).alpha, rtol=1e-6, atol=1e-30)
    assert naive.kkt_violation(K, y, np.full(60, upper), np.zeros(60)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_any_length(seed):
    rng = np.random.default_rng(seed)
    K, y, upper = problem(seed, 60, C=10.0)
    length = 10.0 ** rng.uniform(-4, 4, 60)
    K = K * length * length[:, None]
    found = solve(K, y, upper)
    check(found, K, y, upper, tol=max(1e-9, 4 * found.rounding))


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_that_differ_by_many_orders(seed, balanced):
    K, y, _ = problem(seed, 60)
    upper = 10.0 ** np.random.default_rng(seed).uniform(-12, 12, 60)
    found = solve(K, y, upper, balanced)
    check(found, K, y, upper, balanced, tol=max(1e-9, 4 * found.rounding))
    assert (found.alpha[upper < 1e-9] == upper[upper < 1e-9]).any()


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_fewer_features_than_rows(d, C):
    _, K, y = linear(d, 80, d)
    upper = np.full(80, C)
    found = solve(K, y, upper)
    check(found, K, y, upper, tol=max(1e-9, 4 * found.rounding))
    assert np.count_nonzero((found.alpha > 0) & (found.alpha < C)) <= d + 1


def test_repeated_rows_of_either_class():
    X, _, y = linear(0, 40, 3)
    X, y = np.repeat(X, 3, axis=0), np.tile(y, 3)
    K, upper = X @ X.T, np.full(120, 2.0)
    found = solve(K, y, upper)
    check(found, K, y, upper)


def test_rows_of_zeros():
    X, _, y = linear(0, 40, 3)
    X[5:9] = 0
    K, upper = X @ X.T, np.full(40, 2.0)
    found = solve(K, y, upper)
    check(found, K, y, upper)


@pytest.mark.parametrize("factor", [True, False])
def test_both_ways_to_solve_the_system_lead_to_the_same(factor, monkeypatch):
    _, K, y = linear(3, 90, 4, scales=(-1, 2))
    upper = np.full(90, 10.0)
    wanted = solve(K, y, upper)
    if not factor:
        monkeypatch.setattr(interior_point, "_factor", lambda matrix: None)
    paths, follow = [], interior_point._follow

    def spy(problem, *more):
        paths.append(problem.factor is not None)
        return follow(problem, *more)

    monkeypatch.setattr(interior_point, "_follow", spy)
    found = solve(K, y, upper)
    assert set(paths) == {factor}
    check(found, K, y, upper, tol=max(1e-9, 4 * found.rounding))
    objective = naive.dual_objective(K, y, wanted.alpha)
    assert naive.dual_objective(K, y, found.alpha) == pytest.approx(objective, rel=1e-9)


def test_a_large_bound_on_classes_that_overlap():
    _, K, y = linear(3, 90, 4, scales=(-1, 2))
    upper = np.full(90, 1e7)
    found = solve(K, y, upper)
    check(found, K, y, upper, tol=4 * found.rounding)
    assert np.count_nonzero(found.alpha == upper) > 10


def test_the_bits_do_not_depend_on_threads(monkeypatch):
    K, y, upper = problem(2, 250, C=10.0)
    found = [solve(K, y, upper, pool=Pool(n_threads)) for n_threads in (1, 2, 3)]
    for other in found[1:]:
        np.testing.assert_array_equal(other.alpha, found[0].alpha)


# --- what has no solution --------------------------------------------------------------------------------


def test_a_kernel_that_is_not_positive_semi_definite_is_given_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(rng.random(60) > 0.5, 1.0, -1.0)
    ones = np.ones((60, 60))
    for K in (np.tanh(X @ X.T - 1), ones - 2 * np.eye(60), 0 * ones, 2 * ones - np.eye(60), X @ X.T - 1):
        assert solve(K, y, np.full(60, 1e3)) is None


def test_labels_of_one_kind_have_no_balance():
    K, _, upper = problem(0, 20)
    assert solve(K, np.ones(20), upper) is None
    check(solve(K, np.ones(20), upper, balanced=False), K, np.ones(20), upper, balanced=False)


def test_it_is_given_up_when_time_is_up():
    K, y, upper = problem(0, 20)
    assert solve(K, y, upper, deadline=0.0) is None


def test_of_large_violations_the_duality_gap_decides():
    nothing = badness(2.0, 10.0, 0.0)  # α = 0
    assert badness(0.1, 10.0, 9.0) < badness(3.0, 10.0, 9.9) < badness(1.0, 10.0, 9.0) < nothing
    assert badness(3.0, 10.0, np.nan) == badness(3.0, -1.0, -2.0) == np.inf


# --- where pair steps are slow ---------------------------------------------------------------------------


def solver_of(kind, K, y, upper, pool, tol=1e-3, **more):
    rows = RowCache(
        Gram(PrecomputedPairwise(np.arange(len(y))), MemorySource.of(K), pool), np.empty(K.nbytes, np.uint8)
    )
    return kind(KernelProblem(y, upper, y), rows, tol, len(y), pool, **more)


@pytest.fixture
def slow():
    """Steps are slow from the first, no Newton step helps, and there is a second working set."""
    with tuned(changed({"kernel": {"many_steps": -(10**9), "set_steps": 2, "newton": False}})):
        yield


@pytest.mark.parametrize("kind", [SMO, Coordinate])
def test_a_problem_on_which_steps_creep_is_solved(kind):
    _, K, y = linear(1, 100, 4, scales=(-1, 3))
    upper = np.full(100, 1e3)
    seen = []
    with Pool.open() as pool:
        solver = solver_of(kind, K, y, upper, pool)
        limits = Limits(10**7, np.inf)
        state, reason, n_steps = drive(solver, solver.init(), limits, lambda state, report: bool(seen.append(report)))
    assert reason is StopReason.CONVERGED
    assert n_steps <= KernelTuning().many_steps + 100 * 100
    assert sum(report.n_newton for report in seen) > 10
    assert naive.kkt_violation(K, y, upper, state.alpha, kind is SMO) <= 1e-3
    values = [report.objective for report in seen]
    assert np.diff(values).min() >= -1e-9 * max(values)


@pytest.mark.parametrize("kind", [SMO, Coordinate])
def test_a_fit_that_is_gone_on_with_has_the_same_bits(kind, slow, monkeypatch):
    K, y, upper = problem(3, 120, C=100.0)
    calls, whole = [], interior_solution

    def spy(*inputs):
        calls.append(1)
        found = whole(*inputs)
        return found._replace(alpha=0.999 * found.alpha)  # so that steps follow

    monkeypatch.setattr(decomposition, "interior_solution", spy)
    with Pool.open() as pool:
        solver, kept = solver_of(kind, K, y, upper, pool, 1e-9), []
        state = solver.init()
        report = None
        while report is None or not report.converged:
            kept.append((type(state)(*(value.copy() for value in state)), solver.memory()))
            state, report = solver.step(state, 10**6)
        assert len(calls) == 1
        assert {memory.interior_tried for _, memory in kept} == {False, True}
        for begun, memory in kept:
            other = solver_of(kind, K, y, upper, pool, 1e-9)
            other.recall(memory)
            found, _, _ = drive(other, begun, Limits(10**6, np.inf), lambda state, report: False)
            np.testing.assert_array_equal(found.alpha, state.alpha)
            np.testing.assert_array_equal(found.gradient, state.gradient)


def test_nothing_is_tried_where_steps_are_fast(monkeypatch):
    def never(*inputs):
        raise AssertionError

    monkeypatch.setattr(decomposition, "interior_solution", never)
    X, y = datasets.load_iris(return_X_y=True)
    assert SVC().fit(X, y).converged_
    K, y, upper = problem(3, 120, C=100.0)
    with Pool.open() as pool:
        solver = solver_of(SMO, K, y, upper, pool, 1e-9)
        assert drive(solver, solver.init(), Limits(10**6, np.inf), lambda *seen: False)[1] is StopReason.CONVERGED


@pytest.mark.parametrize("late", [True, False])
def test_what_is_given_up_changes_nothing(late, slow, monkeypatch):
    K, y, upper = problem(3, 120, C=100.0)
    calls = []

    def nothing(*inputs):
        calls.append(inputs[-1])

    monkeypatch.setattr(decomposition, "interior_solution", nothing)
    deadline = 0.0 if late else np.inf
    with Pool.open() as pool:
        solver = solver_of(SMO, K, y, upper, pool, 1e-9, deadline=deadline)
        state, reason, _ = drive(solver, solver.init(), Limits(10**6, np.inf), lambda *seen: False)
        assert reason is StopReason.CONVERGED
        assert set(calls) == {deadline}
        assert (len(calls) > 1) is late  # one that time cut short is tried again where the fit goes on
        with tuned(changed({"kernel": {"interior": False}})):
            without = solver_of(SMO, K, y, upper, pool, 1e-9)
        wanted, _, _ = drive(without, without.init(), Limits(10**6, np.inf), lambda *seen: False)
    np.testing.assert_array_equal(state.alpha, wanted.alpha)


def test_an_indefinite_kernel_goes_on_with_pair_steps(slow):
    K, y, upper = problem(3, 60)
    K = K - 0.5 * np.eye(60)
    with Pool.open() as pool:
        solver = solver_of(SMO, K, y, upper, pool)
        _, reason, _ = drive(solver, solver.init(), Limits(10**6, np.inf), lambda *seen: False)
    assert reason is StopReason.CONVERGED


def test_the_gradient_is_verified_in_units_of_the_kernel():
    K, y, _ = problem(3, 60)
    with Pool.open() as pool:
        solver = solver_of(SMO, 1e16 * K, y, np.full(60, 1.0), pool)
        state = solver.init()
        solver.gradient.recompute(state)
        assert solver.gradient.verified
        solver.step(state, 10)
        solver.gradient.products.drift = 1.0  # multiplies values of 1e16
        assert not solver.gradient.verified


def test_a_newton_step_leaves_multipliers_that_are_small_beside_their_bound():
    alpha, upper = np.array([2e-20, 3e-20, 0.4, 1.0, 1.0]), np.array([1e6, 1e6, 1.0, 3.0, 3.0])
    change = np.array([-1e-20, -3e-20, 0.6 - 1e-16, 2.0 * (1 - EPS), -1.0 + EPS])
    np.testing.assert_allclose(moved(alpha, upper, change), [1e-20, 0, 1.0, 3.0, 0], rtol=1e-12, atol=0)
    assert moved(alpha, upper, change)[2] == 1.0
    assert moved(alpha, upper, change)[3] == 3.0


# --- features that nobody scaled -------------------------------------------------------------------------


def violation_of(model, K, labels, C):
    """Return the largest violation of a model's two-class problems, and the rounding error of a gradient."""
    worst = rounding = 0.0
    for rows, y, upper, alpha, _ in naive.pair_problems(model, labels, np.full(len(labels), float(C))):
        part = K[np.ix_(rows, rows)]
        worst = max(worst, naive.kkt_violation(part, y, upper, alpha))
        rounding = max(rounding, EPS * (np.abs(part) @ alpha).max())
    return worst, rounding


def blobs(seed, spread):
    return datasets.make_blobs(200, 2, centers=2, cluster_std=spread, random_state=seed)


HARD = {
    "wine, linear, C=1e6": (datasets.load_wine, {"kernel": "linear", "C": 1e6}),
    "wine, poly": (datasets.load_wine, {"kernel": "poly", "degree": 5, "gamma": "auto", "C": 1}),
    "cancer, linear": (datasets.load_breast_cancer, {"kernel": "linear", "C": 1}),
    "cancer, poly": (datasets.load_breast_cancer, {"kernel": "poly", "gamma": 0.01, "C": 1e-6}),
    "blobs, hard margin": (lambda return_X_y: blobs(2, 1.0), {"kernel": "linear", "C": 1e12}),
    "blobs that overlap": (lambda return_X_y: blobs(0, 2.0), {"kernel": "linear", "C": 1e6}),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_features_that_nobody_scaled(name):
    load, parameters = HARD[name]
    X, labels = load(return_X_y=True)
    model = SVC(**parameters).fit(X, labels)
    assert model.stop_reason_ == "converged"
    assert model.n_iter_.max() < 300_000
    K = X @ X.T
    if parameters["kernel"] == "poly":
        gamma = 1 / X.shape[1] if parameters["gamma"] == "auto" else parameters["gamma"]
        K = (gamma * K) ** parameters.get("degree", 3)
    violation, rounding = violation_of(model, K, labels, parameters["C"])
    assert violation <= 1e-3 + 16 * rounding
    assert rounding <= 1e-4


@pytest.mark.parametrize("C", [1e13, 1e14])
def test_a_fit_at_the_rounding_error_of_its_kernel_values_says_so_soon(C):
    """At the smaller C, the last digits of products decide whether steps come within tolerance."""
    X, labels = blobs(0, 2.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SVC(kernel="linear", C=C).fit(X, labels)
    says = any(issubclass(one.category, ConvergenceWarning) and "floating point" in str(one.message) for one in caught)
    assert says == (model.stop_reason_ == "stalled") == (not model.converged_)
    assert says or C < 1e14
    assert model.n_iter_.max() < 3_000_000  # of ten million; rounding decides how many
    violation, rounding = violation_of(model, X @ X.T, labels, C)
    assert violation <= 16 * rounding
    assert violation > 1e-3 or not says
    # Decision values are off by as much, so a few rows near the hyperplane fall on the other side.
    least = SVC(kernel="linear", C=1e4).fit(X, labels).score(X, labels) - 0.05
    assert C == 1e14 or model.score(X, labels) >= least


# --- the features' scales differ -------------------------------------------------------------------------


def columns(seed, n, d, noise, classes=2):
    """Return a table whose columns have scales from 1e-2 to 1e5."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    score = Z[:, 0] + 0.7 * Z[:, -1] + 0.5 * Z[:, 2] * Z[:, 3] + noise * rng.normal(size=n)
    return Z * 10.0 ** np.linspace(-2, 5, d), np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


@pytest.mark.filterwarnings("ignore:The features have very different lengths")
@pytest.mark.parametrize("n", [120, 300, 500])
def test_a_fit_of_any_few_samples_has_room_for_it(n):
    model = SVC(kernel="linear").fit(*columns(0, n, 8, 0.5))
    assert model.converged_
    assert (model.n_iter_ <= 300_000).all()


@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_a_fit_whose_optimum_is_lost_in_rounding_ends_soon_and_says_so():
    X, y = columns(1, 600, 5, 0.5, classes=3)
    with pytest.warns(ConvergenceWarning, match="floating point"):
        model = SVC(kernel="poly", gamma="auto", max_time=120).fit(X, y)
    assert model.stop_reason_ == "stalled"
    assert not model.converged_
    assert (model.n_iter_ <= 300_000).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SVC(kernel="poly", gamma="auto").fit(X / X.std(axis=0), y).converged_
