"""Does the referee of the benchmarks tell right answers from wrong ones?"""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import SVC

from bench.kernel import referee
from bench.kernel.exact_kernel import ExactKernel
from bench.kernel.referee import Answer, examine, examine_all

GAMMA, DEGREE, COEF0 = 0.3, 2, 0.5
NAIVE = {
    "linear": lambda x, z: x @ z,
    "poly": lambda x, z: (GAMMA * (x @ z) + COEF0) ** DEGREE,
    "rbf": lambda x, z: np.exp(-GAMMA * ((x - z) ** 2).sum()),
    "sigmoid": lambda x, z: np.tanh(GAMMA * (x @ z) + COEF0),
    "laplacian": lambda x, z: np.exp(-GAMMA * np.abs(x - z).sum()),
    "exponential": lambda x, z: np.exp(-GAMMA * np.sqrt(((x - z) ** 2).sum())),
}


def naive_verdict(K, y, C, answer):
    """Return objective, KKT gap and duality gap by the definitions, one pair and one row at a time."""
    classes = np.unique(y).tolist()
    objective = gap = duality_gap = 0.0
    for k, (a, b) in enumerate(combinations(range(len(classes)), 2)):
        sign = -1 if len(classes) == 2 else 1
        beta = np.zeros(len(y))
        for s, i in enumerate(answer.support):
            if y[i] == classes[a]:
                beta[i] = sign * answer.dual_coef[b - 1, s]
            elif y[i] == classes[b]:
                beta[i] = sign * answer.dual_coef[a, s]
        rows = [i for i in range(len(y)) if y[i] in (classes[a], classes[b])]
        t = {i: 1 if y[i] == classes[a] else -1 for i in rows}
        f = {i: sum(beta[j] * K[i, j] for j in rows) for i in rows}
        quadratic = sum(beta[i] * f[i] for i in rows)
        dual = sum(t[i] * beta[i] for i in rows) - quadratic / 2
        loss = sum(max(0, 1 - t[i] * (f[i] + sign * answer.intercept[k])) for i in rows)
        rise = [f[i] - t[i] for i in rows if (t[i] * beta[i] < C if t[i] > 0 else t[i] * beta[i] > 0)]
        fall = [f[i] - t[i] for i in rows if (t[i] * beta[i] > 0 if t[i] > 0 else t[i] * beta[i] < C)]
        objective += dual
        gap = max(gap, max(fall) - min(rise))
        duality_gap += quadratic / 2 + C * loss - dual
    return objective, gap, duality_gap


def fitted(X, y, C, gamma, tol=1e-9):
    model = SVC(C=C, gamma=gamma, tol=tol).fit(X, y)
    return Answer(model.support_, model.dual_coef_, model.intercept_)


def standardised_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("form", [np.float64, np.float32, np.uint8, "sparse", "wide"])
@pytest.mark.parametrize("name", NAIVE)
def test_kernel_values_are_those_of_the_definition(name, form, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (14, 5)).astype(np.float64)
    X[3] = X[7]
    if form == "wide":
        monkeypatch.setattr("bench.kernel.exact_kernel._WIDE", 0)
    stored = sparse.csr_matrix(X) if form in ("sparse", "wide") else X.astype(form)
    kernel = ExactKernel(stored, name, GAMMA, DEGREE, COEF0)
    rows = kernel.rows(np.arange(14), kernel.centre())
    expected = [[NAIVE[name](x, z) for z in X] for x in X]
    np.testing.assert_allclose(kernel.between(rows, rows), expected, rtol=1e-12, atol=1e-14)


def test_kernel_values_keep_their_digits_far_from_the_origin():
    X = np.random.default_rng(0).normal(size=(6, 3))
    near, far = ExactKernel(X, "rbf", GAMMA), ExactKernel(X + 2.0**20, "rbf", GAMMA)
    values = [k.between(*2 * [k.rows(np.arange(6), k.centre())]) for k in (near, far)]
    np.testing.assert_allclose(*values, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("block", [7, 4096])
def test_verdict_is_that_of_a_naive_calculation(n_classes, block, monkeypatch):
    monkeypatch.setattr(referee, "_ROWS", block)
    monkeypatch.setattr(referee, "_SUPPORT", block)
    X, y = load_iris(return_X_y=True)
    few = np.flatnonzero(y < n_classes)[::5]
    X, y = X[few], y[few]
    answer = fitted(X, y, C=2, gamma=GAMMA, tol=0.1)
    K = np.array([[NAIVE["rbf"](x, z) for z in X] for x in X])
    found = examine(ExactKernel(X, "rbf", GAMMA), y, 2, answer)
    assert (found.objective, found.kkt_gap, found.duality_gap) == pytest.approx(
        naive_verdict(K, y, 2, answer), abs=1e-10
    )
    assert found.n_support == len(answer.support)


@pytest.mark.parametrize("data", [lambda: load_iris(return_X_y=True), standardised_cancer])
def test_tight_answer_of_scikit_learn_is_optimal(data):
    X, y = data()
    found = examine(ExactKernel(X, "rbf", 0.05), y, 10, fitted(X, y, C=10, gamma=0.05))
    assert found.kkt_gap < 1e-4  # its kernel values are float32
    assert 0 <= found.duality_gap < 1e-4 * found.objective
    assert max(found.bound_violation, found.balance_violation) < 1e-10
    loose = examine(ExactKernel(X, "rbf", 0.05), y, 10, fitted(X, y, C=10, gamma=0.05, tol=0.5))
    assert loose.objective < found.objective
    assert loose.kkt_gap > 0.1


def test_perturbed_answers_are_noticed():
    X, y = standardised_cancer()
    kernel = ExactKernel(X, "rbf", 0.05)
    right = fitted(X, y, C=10, gamma=0.05)
    best = examine(kernel, y, 10, right)
    free = np.flatnonzero(np.abs(right.dual_coef[0]) < 9)
    coef = right.dual_coef.copy()
    coef[0, free[0]] *= 0.9
    wrong = examine(kernel, y, 10, right._replace(dual_coef=coef))
    assert wrong.kkt_gap > 100 * best.kkt_gap
    assert wrong.balance_violation > 1e-3
    assert examine(kernel, y, 10, right._replace(dual_coef=-right.dual_coef)).bound_violation > 1
    assert examine(kernel, y, 10, right._replace(dual_coef=2 * right.dual_coef)).bound_violation > 1
    assert examine(kernel, y, 10, right._replace(intercept=right.intercept + 1)).duality_gap > 1


def test_objective_without_gap_is_the_same():
    X, y = load_iris(return_X_y=True)
    answer = fitted(X, y, C=1, gamma=0.1)
    kernel = ExactKernel(X, "rbf", 0.1)
    short, full = examine(kernel, y, 1, answer, gap=False), examine(kernel, y, 1, answer)
    assert short.objective == pytest.approx(full.objective, rel=1e-12)
    assert short.kkt_gap is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_several_answers_are_judged_as_each_alone(n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], y[y < n_classes] + 4
    kernel = ExactKernel(X, "rbf", 0.1)
    answers = [fitted(X, y, C=1, gamma=0.1, tol=tol) for tol in (0.5, 1e-3, 1e-9)]
    together = examine_all(kernel, y, 1, answers)
    for answer, verdict in zip(answers, together, strict=True):
        alone = examine(kernel, y, 1, answer)
        np.testing.assert_allclose(verdict[:5], alone[:5], rtol=1e-12, atol=1e-12)
        assert verdict.n_support == alone.n_support == len(answer.support)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_new_rows_are_predicted_as_scikit_learn_does(n_classes, form):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], np.array(["a", "b", "c"])[y[y < n_classes]]
    X_test = np.random.default_rng(0).normal(X.mean(axis=0), 2 * X.std(axis=0), (200, 4))
    model = SVC(C=1, gamma=0.1, tol=1e-9).fit(X, y)
    answer = Answer(model.support_, model.dual_coef_, model.intercept_)
    (verdict,) = examine_all(ExactKernel(form(X), "rbf", 0.1), y, 1, [answer], X_test=form(X_test))
    assert (verdict.predicted == model.predict(X_test)).all()


@pytest.mark.parametrize(
    "change",
    [
        {"dual_coef": np.zeros((1, 3))},
        {"intercept": np.zeros(2)},
        {"support": np.array([0, 0, 149])},
        {"support": np.array([0, 1, 150])},
        {"dual_coef": np.full((2, 3), np.nan)},
    ],
)
def test_answers_of_another_layout_are_refused(change):
    X, y = load_iris(return_X_y=True)
    answer = Answer(np.array([0, 60, 149]), np.zeros((2, 3)), np.zeros(3))._replace(**change)
    with pytest.raises(ValueError, match="should"):
        examine(ExactKernel(X, "rbf", 0.1), y, 1, answer)
