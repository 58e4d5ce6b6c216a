import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from fastsvm import SVC, SVR, NuSVR
from fastsvm.estimators.kernel import prepare
from fastsvm.estimators.kernel.duplicate_rows import Repeats
from fastsvm.kernel_matrix.pairwise import multiplies_bytes
from fastsvm.sources import as_source
from fastsvm.tuning import KernelTuning, changed, tuned

needs_bytes = pytest.mark.skipif(not multiplies_bytes(64), reason="the processor does not multiply bytes")


def draw(seed, n=200, d=5):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, d), np.uint8)
    return X, rng.integers(-1, 3, n), rng.uniform(0.1, 3, n)


@pytest.mark.parametrize("seed", range(8))
def test_repeats_are_those_of_unique(seed):
    X, labels, upper = draw(seed)
    found = Repeats.find(as_source(X), lambda: labels, upper, KernelTuning())
    _, first, group = np.unique(np.column_stack([labels, X]), axis=0, return_index=True, return_inverse=True)
    wanted = np.where(labels >= 0, first[group.ravel()], np.arange(len(X)))
    np.testing.assert_array_equal(found.first, wanted)
    np.testing.assert_array_equal(found.labels(labels), np.where(wanted == np.arange(len(X)), labels, -1))
    bounds = np.zeros(len(X))
    for row, bound in zip(wanted, upper, strict=True):
        bounds[row] += bound
    np.testing.assert_allclose(found.bounds(), bounds, rtol=1e-14)


def test_few_repeats_are_left_alone():
    X = np.arange(256, dtype=np.uint8)[:, None]
    assert Repeats.find(as_source(X), lambda: np.zeros(256, int), np.ones(256), KernelTuning()) is None
    X[1:3] = 0
    assert Repeats.find(as_source(X), lambda: np.zeros(256, int), np.ones(256), KernelTuning()) is None
    X[3] = 0
    assert Repeats.find(as_source(X), lambda: np.zeros(256, int), np.ones(256), KernelTuning()) is not None


@pytest.mark.parametrize("convert", [np.float16, sparse.csr_matrix])
def test_rows_that_are_not_dense_bytes_or_words_are_left_alone(convert):
    X, labels, upper = draw(0)
    assert Repeats.find(as_source(X), lambda: labels, upper, KernelTuning()) is not None
    assert Repeats.find(as_source(convert(X)), lambda: labels, upper, KernelTuning()) is None


@pytest.mark.parametrize(
    ("dtype", "n", "n_classes", "compares"),
    [(float, 3000, 2, True), (float, 3000, 100, False), (np.uint8, 300, 2, True), (np.uint8, 300, 100, False)],
)
def test_rows_are_compared_if_a_problem_has_many(dtype, n, n_classes, compares, monkeypatch):
    compared = []
    monkeypatch.setattr(Repeats, "find", lambda *arguments: compared.append(arguments))
    SVC().fit((np.arange(n)[:, None] % 50).astype(dtype), np.arange(n) % n_classes)
    assert bool(compared) == compares


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_many_rows_of_numbers_repeat_as_bytes_do(dtype):
    X, labels, upper = draw(0, n=3000, d=8)
    found = Repeats.find(as_source(X.astype(dtype)), lambda: labels, upper, KernelTuning())
    np.testing.assert_array_equal(found.first, Repeats.find(as_source(X), lambda: labels, upper, KernelTuning()).first)


@pytest.mark.parametrize("alike", ["many", "in part", "never"])
def test_long_rows_of_which_many_are_equal_or_none(alike):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(3000, 200)), rng.integers(-1, 2, 3000)
    if alike == "many":
        X[1000:] = X[rng.integers(0, 1000, 2000)]
    else:  # numbers in the same places are the same in all rows
        X[:, ::6] = 0
        X[1000:] = X[rng.integers(0, 1000, 2000)] if alike == "in part" else X[1000:]
    found = Repeats.find(as_source(X), lambda: labels, np.ones(3000), KernelTuning())
    if alike == "never":
        assert found is None
        return
    _, first, group = np.unique(np.column_stack([labels, X]), axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(found.first, np.where(labels >= 0, first[group.ravel()], np.arange(3000)))


def test_repeated_floats_are_one_sample_with_their_weight():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 4)), rng.integers(0, 2, 900)
    weight = rng.uniform(0.5, 1.5, (3, 900))
    found = SVC(tol=1e-6).fit(np.tile(X, (3, 1)), np.tile(y, 3), sample_weight=weight.ravel())
    wanted = SVC(tol=1e-6, gamma=found._gamma).fit(X, y, sample_weight=weight.sum(axis=0))
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-4)
    assert found.history_["rows_computed"][-1] <= 900


@given(seed=st.integers(0, 1000))
def test_sums_are_spread_within_bounds_with_one_free_row_at_most(seed):
    X, labels, upper = draw(seed)
    found = Repeats.find(as_source(X), lambda: labels, upper, KernelTuning())
    rng, bounds = np.random.default_rng(seed + 1), found.bounds()
    heads = np.flatnonzero(found.first == np.arange(len(X)))
    sums = np.zeros(len(X))
    sums[heads] = bounds[heads] * rng.choice([0.0, 1.0, 0.5, 0.2, 0.9], len(heads)) * rng.choice([1, 0.77], len(heads))
    alpha = found.spread(sums)
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    np.testing.assert_allclose(np.bincount(found.first, alpha, len(X)), sums, rtol=1e-12, atol=1e-12)
    for head in heads:
        mine = found.first == head
        assert np.count_nonzero((alpha[mine] > 0) & (alpha[mine] < upper[mine])) <= 1
        if sums[head] == bounds[head]:
            np.testing.assert_array_equal(alpha[mine], upper[mine])
        if sums[head] == 0:
            assert not alpha[mine].any()


def test_a_sum_of_some_bounds_leaves_no_row_free():
    X, _, _ = draw(0, n=200)
    labels, upper = np.zeros(200, int), np.full(200, 0.1)
    found = Repeats.find(as_source(X), lambda: labels, upper, KernelTuning())
    for head in np.unique(found.first):
        members = np.count_nonzero(found.first == head)
        for count in range(members + 1):
            sums = np.zeros(200)
            sums[head] = np.sum(np.full(count, 0.1))
            alpha = found.spread(sums)[found.first == head]
            assert np.count_nonzero((alpha > 0) & (alpha < 0.1)) <= 1
            np.testing.assert_allclose(alpha.sum(), sums[head], rtol=1e-12, atol=1e-12)


def categories(n_classes, n=240):
    """Return rows of 64 bytes of which many are equal, also across classes, and weights."""
    rng = np.random.default_rng(n_classes)
    kinds = rng.integers(0, 2, (50, 64), np.uint8)
    y = rng.integers(0, n_classes, n)
    kind = np.where(rng.random(n) < 0.7, y * (50 // n_classes) + rng.integers(0, 15, n), rng.integers(0, 50, n)) % 50
    return kinds[kind], y, rng.uniform(0.3, 2, n)


def kernel(X, gamma):
    wide = X.astype(np.float64)
    return np.exp(-gamma * ((wide[:, None] - wide[None]) ** 2).sum(axis=2))


@needs_bytes
@pytest.mark.parametrize(
    ("n_classes", "weighted", "class_weight"),
    [(n_classes, (i + j) % 2 > 0, class_weight)
     for i, n_classes in enumerate([2, 3]) for j, class_weight in enumerate([None, "balanced", {0: 2.0, 1: 0.5}])],
)  # fmt: skip
def test_the_fit_is_that_of_all_rows(n_classes, weighted, class_weight, monkeypatch):
    X, y, weight = categories(n_classes)
    if weighted:
        weight[:9] = 0  # left out
    weight = weight if weighted else None
    parameters = {"gamma": 0.05, "C": 3.0, "tol": 1e-5, "class_weight": class_weight}
    parameters["decision_function_shape"] = "ovo"
    found, whole = [], Repeats.find

    def spy(*given):
        found.append(whole(*given))
        return found[-1]

    monkeypatch.setattr(prepare.Repeats, "find", spy)
    one = SVC(**parameters).fit(X, y, weight)
    assert found[0] is not None
    with tuned(changed({"kernel": {"merged": False}})):
        other = SVC(**parameters).fit(X, y, weight)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=0, atol=1e-4)
    upper = 3.0 * (np.ones(len(y)) if weight is None else weight) * one.class_weight_[y]
    labels = y if weight is None else np.where(weight > 0, y, -1)
    objective, violation, gap = naive.certificate(one, kernel(X, 0.05), labels, upper)
    assert violation <= 1e-5
    assert one.objective_ == pytest.approx(objective, rel=1e-9)
    assert one.duality_gap_ == pytest.approx(gap, abs=1e-9 * objective)
    for _, _, bound, alpha, _ in naive.pair_problems(one, labels, upper):
        assert (alpha >= 0).all()
        assert (alpha <= bound).all()


@needs_bytes
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("given", [SVR(epsilon=0.05), SVR(epsilon=0.05, solver="coordinate"), NuSVR(nu=0.4)])
def test_the_regression_is_that_of_all_rows(given, weighted, monkeypatch):
    X, y, weight = categories(3)
    weight[:9] = 0  # left out
    weight, target = weight if weighted else None, y + 0.25 * (X[:, 0] > 0)
    model = given.set_params(gamma=0.05, C=3.0, tol=1e-7)
    found, whole = [], Repeats.find
    monkeypatch.setattr(prepare.Repeats, "find", lambda *given: found.append(whole(*given)) or found[-1])
    one = clone(model).fit(X, target, weight)
    assert len(np.unique(found[0].first)) < 0.8 * len(X)
    with tuned(changed({"kernel": {"merged": False}})):
        other = clone(model).fit(X, target, weight)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    assert one.duality_gap_ <= 1e-4 * one.objective_
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=0, atol=1e-4)
    bound = 3.0 * (np.ones(len(y)) if weight is None else weight)
    assert (np.abs(one.dual_coef_[0]) <= bound[one.support_]).all()
    assert one.kkt_violation_ <= 1e-7


@pytest.mark.parametrize("n_distinct", [1, 240])
def test_targets_decide_which_rows_are_the_same(n_distinct, monkeypatch):
    """Rows with other targets are other samples; where all targets differ, nothing is compared."""
    X, _, _ = categories(2)
    found, whole = [], Repeats.find
    monkeypatch.setattr(prepare.Repeats, "find", lambda *given: found.append(whole(*given)) or found[-1])
    SVR(gamma=0.05).fit(X, np.arange(240.0) % n_distinct)
    assert (found[0] is not None) == (n_distinct < 240)
    assert n_distinct > 1 or len(np.unique(found[0].first)) == len(np.unique(X, axis=0))


@needs_bytes
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_warm_start_continues(n_classes):
    X, y, weight = categories(n_classes)
    model = SVC(gamma=0.05, C=3.0, tol=1e-5, warm_start=True).fit(X, y, weight)
    cold, objective = model.n_iter_.sum(), model.objective_
    model.fit(X, y, weight)
    assert model.n_iter_.sum() < cold / 10
    assert model.objective_ == pytest.approx(objective, rel=1e-6)
