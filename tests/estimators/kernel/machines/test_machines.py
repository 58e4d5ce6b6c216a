"""SVR, NuSVR, NuSVC and OneClassSVM: answers of scikit-learn, certificates, weights, files, interrupts, messages."""

import warnings

import h5py
import numpy as np
import pytest
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import fastsvm
from bench.machines.referee import examine_machine
from fastsvm import SVR, NuSVC, NuSVR, OneClassSVM
from fastsvm.estimators.fitting.session import checkpointed
from fastsvm.estimators.kernel import prepare
from fastsvm.kernel_matrix.memory_plan import plan
from fastsvm.tuning import changed, tuned

GAMMA = 0.3
GIVEN = {
    "svr": {"C": 5.0, "epsilon": 0.1},
    "svr, no intercept": {"C": 5.0, "epsilon": 0.1, "solver": "coordinate"},
    "nu-svr": {"C": 5.0, "nu": 0.3},
    "nu-svc": {"nu": 0.3},
    "one-class": {"nu": 0.2},
}
OURS = {"svr": SVR, "nu-svr": NuSVR, "nu-svc": NuSVC, "one-class": OneClassSVM}
THEIRS = {"svr": svm.SVR, "nu-svr": svm.NuSVR, "nu-svc": svm.NuSVC, "one-class": svm.OneClassSVM}
every = pytest.mark.parametrize("name", GIVEN)
of_libsvm = pytest.mark.parametrize("name", OURS)
sizes = pytest.mark.parametrize("decomposed", [False, True], ids=["small", "decomposed"])

_RNG = np.random.default_rng(7)
X = _RNG.normal(size=(150, 4))
Z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * _RNG.normal(size=150)


def labels(name):
    return np.where(Z > 0, 1, -1) if name == "nu-svc" else Z


def model(name, **more):
    return OURS[name.split(",")[0]](**{"gamma": GAMMA, "tol": 1e-8} | GIVEN[name] | more)


def values(fitted, rows):
    return fitted.decision_function(rows) if hasattr(fitted, "decision_function") else fitted.predict(rows)


def same(a, b, atol=1e-6):
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-8)
    np.testing.assert_allclose(values(a, X), values(b, X), atol=atol)


@pytest.fixture(scope="module")
def fitted():
    """Return a fitted model of each kind, which no test may change."""
    return {name: model(name).fit(X, labels(name)) for name in GIVEN}


@pytest.fixture
def decomposition():
    """Leave small problems to the decomposition too."""
    with tuned(changed({"kernel": {"small": False}})):
        yield


# --- answers -----------------------------------------------------------------------------------------------


@of_libsvm
def test_answers_and_attributes_are_those_of_libsvm(name, fitted):
    ours, theirs = fitted[name], THEIRS[name](gamma=GAMMA, tol=1e-9, **GIVEN[name]).fit(X, labels(name))
    np.testing.assert_allclose(values(ours, X), values(theirs, X), atol=1e-5)  # LIBSVM's kernel values are float32
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)


@sizes
@every
def test_the_certificate_is_that_of_a_referee(name, decomposed, fitted, request):
    found = fitted[name]
    if decomposed:
        request.getfixturevalue("decomposition")
        found = model(name).fit(X, labels(name))
        same(found, fitted[name])
    beta, machine = np.zeros(len(X)), name.split(",")[0]
    beta[found.support_] = found.dual_coef_[0]
    asked = {key: value for key, value in GIVEN[name].items() if key in ("nu", "epsilon")}
    c = np.full(len(X), GIVEN[name].get("C", 1.0))
    sums = rbf_kernel(X, gamma=GAMMA) @ beta
    judged = examine_machine(machine, sums, labels(name), c, beta, found.intercept_[0], **asked)
    assert found.objective_ == pytest.approx(judged.objective, rel=1e-10)
    assert found.duality_gap_ == pytest.approx(judged.gap, abs=1e-7)
    assert judged.gap <= 1e-6 and found.kkt_violation_ <= 1e-8 and found.converged_
    if name == "svr, no intercept":
        assert found.intercept_[0] == 0.0 and abs(beta.sum()) > 0.1  # no constraint makes the sum 0
    else:
        assert judged.violation <= 1e-10


def test_the_tube_of_a_given_share_is_that_of_its_width(fitted):
    nu = fitted["nu-svr"]
    twin = SVR(gamma=GAMMA, tol=1e-8, C=5.0, epsilon=nu.epsilon_).fit(X, Z)
    np.testing.assert_allclose(nu.predict(X), twin.predict(X), atol=1e-5)
    outside = np.abs(Z - nu.predict(X)) > nu.epsilon_ + 1e-6
    assert outside.mean() <= 0.3 <= len(nu.support_) / len(X)


def test_outliers_of_one_class(fitted):
    found = fitted["one-class"]
    decisions = found.decision_function(X)
    assert (decisions < -1e-6).mean() <= 0.2 <= len(found.support_) / len(X)
    np.testing.assert_array_equal(found.predict(X), np.where(decisions >= 0, 1, -1))
    np.testing.assert_allclose(found.score_samples(X), decisions + found.offset_)
    assert found.dual_coef_.sum() == pytest.approx(0.2 * len(X))
    np.testing.assert_array_equal(OneClassSVM(gamma=GAMMA, tol=1e-8, nu=0.2).fit_predict(X), found.predict(X))


def test_three_classes_are_those_of_libsvm():
    y = np.digitize(Z, [-0.5, 0.5])
    given = {"nu": 0.3, "gamma": GAMMA, "tol": 1e-9, "decision_function_shape": "ovo"}
    ours, theirs = NuSVC(**given).fit(X, y), svm.NuSVC(**given).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)


def test_targets_and_features_of_any_scale():
    found = SVR(C=1e6, epsilon=1e3, tol=10.0).fit(1e3 * X + 1e5, 1e6 * Z)
    theirs = svm.SVR(C=1e6, epsilon=1e3, tol=1e-3).fit(1e3 * X + 1e5, 1e6 * Z)
    assert found.converged_ and found.duality_gap_ <= 1e-4 * abs(found.objective_)
    np.testing.assert_allclose(found.predict(1e3 * X + 1e5), theirs.predict(1e3 * X + 1e5), atol=1e-4 * 1e6)


# --- samples and weights -----------------------------------------------------------------------------------


@every
def test_weights_are_repeated_rows_and_zeros_are_left_out(name):
    y, weight = labels(name), np.random.default_rng(5).integers(0, 4, len(X))
    weighted = model(name).fit(X, y, sample_weight=weight)
    repeated = model(name).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    same(weighted, repeated)
    assert (weight[weighted.support_] > 0).all()


@of_libsvm
def test_bytes_with_repeated_rows(name):
    rows = np.random.default_rng(3).integers(0, 3, (120, 4)).astype(np.uint8)  # of 81 different ones
    y = labels(name)[:120]
    given = {"gamma": GAMMA, "nu": 0.3} if name == "nu-svc" else {"gamma": GAMMA}
    if name == "nu-svc":
        y = np.where(rows[:, 0] > np.arange(120) % 2, 1, -1)
    of_bytes, of_floats = model(name, **given).fit(rows, y), model(name, **given).fit(rows.astype(float), y)
    assert of_bytes.objective_ == pytest.approx(of_floats.objective_, rel=1e-8)
    np.testing.assert_allclose(values(of_bytes, rows), values(of_floats, rows), atol=1e-5)


@every
def test_a_file_gives_the_bits_of_an_array(name, tmp_path, decomposition):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, labels(name)
    with fastsvm.open_hdf5(tmp_path / "rows.h5") as data:
        streamed = model(name).fit(data)
    found = model(name).fit(X, labels(name))
    np.testing.assert_array_equal(streamed.support_vectors_, found.support_vectors_)
    np.testing.assert_allclose(streamed.dual_coef_, found.dual_coef_, rtol=1e-6, atol=1e-8)


def test_standardised_features(fitted):
    scales = 10.0 ** np.arange(4)
    scaled = model("svr", standardize=True).fit(X * scales + 5.0, Z)
    plain = model("svr").fit((X - X.mean(axis=0)) / X.std(axis=0), Z)
    np.testing.assert_allclose(scaled.predict(X * scales + 5.0), plain.predict((X - X.mean(axis=0)) / X.std(axis=0)))
    again = fastsvm.OneClassSVM(standardize=True).fit(X * scales)
    assert again.predict(X * scales).mean() == pytest.approx(0.0, abs=0.1)  # nu=0.5


# --- what stops and goes on --------------------------------------------------------------------------------


@every
def test_warm_starts_go_on(name, fitted, decomposition):
    began = model(name, warm_start=True, max_iter=5)
    with pytest.warns(ConvergenceWarning, match="max_iter") as told:
        began.fit(X, labels(name))
    assert ("lower C" in str(told[0].message)) is ("C" in began.get_params())
    assert ("solver" in str(told[0].message)) is ("solver" in began.get_params())
    assert np.isfinite(values(began, X)).all() and began.duality_gap_ > 0
    same(began.set_params(max_iter=-1).fit(X, labels(name)), fitted[name])
    assert began.fit(X, labels(name)).n_iter_ <= 2


class Interrupting:
    """The RBF kernel, interrupted in one of its calls."""

    def __init__(self, when):
        self.calls, self.when = 0, when

    def __call__(self, A, B):
        self.calls += 1
        if self.calls == self.when:
            raise KeyboardInterrupt
        return rbf_kernel(A, B, gamma=GAMMA)


@every
def test_an_interrupted_fit_goes_on(name, fitted, decomposition):
    whole = Interrupting(0)
    model(name, kernel=whole).fit(X, labels(name))
    began = model(name, kernel=Interrupting(max(1, whole.calls // 2)), warm_start=True)
    with pytest.raises(KeyboardInterrupt):
        began.fit(X, labels(name))
    found = began.fit(X, labels(name))
    assert found.objective_ == pytest.approx(fitted[name].objective_, rel=1e-8)


class Keeping:
    """Keeps the checkpoint of one step."""

    def __init__(self, step):
        self.step, self.kept = step, None

    def observe(self, tree, facts):
        self.step -= 1
        if self.step == 0:
            self.kept = tree()


@every
def test_a_fit_from_a_checkpoint_ends_with_the_same_bits(name, decomposition, monkeypatch):
    monkeypatch.setattr(prepare, "plan", lambda *given: plan(*given)._replace(working_set=16))  # for several steps
    keeping, watched = Keeping(2), model(name)
    with checkpointed(watched, keeping, None):
        watched.fit(X, labels(name))
    assert keeping.kept is not None
    resumed = model(name)
    with checkpointed(resumed, None, keeping.kept):
        resumed.fit(X, labels(name))
    np.testing.assert_array_equal(resumed.dual_coef_, watched.dual_coef_)
    np.testing.assert_array_equal(resumed.intercept_, watched.intercept_)


@every
def test_models_are_the_same_after_a_round_trip(name, fitted, tmp_path):
    fastsvm.save(fitted[name], tmp_path / "some.model")
    again = fastsvm.load(tmp_path / "some.model")
    assert again.get_params() == fitted[name].get_params()
    np.testing.assert_array_equal(values(again, X), values(fitted[name], X))
    assert vars(again).keys() >= {key for key in vars(fitted[name]) if key.endswith("_")}


# --- messages ----------------------------------------------------------------------------------------------

BAD = {
    "nu": (NuSVC(nu=0.9), X, np.arange(150) < 50, "nu=0.9.*at most 0.666666 is feasible"),
    "nu of weights": (NuSVC(nu=0.5), X, np.arange(150) < 75, "7.5 and 75; at most 0.181818 is feasible"),
    "nu 0": (NuSVR(nu=0.0), X, Z, r"'nu'.*\(0.0, 1.0\]"),
    "nu above 1": (OneClassSVM(nu=1.5), X, None, r"'nu'.*\(0.0, 1.0\]"),
    "nu NaN": (OneClassSVM(nu=np.nan), X, None, "'nu'"),
    "epsilon": (SVR(epsilon=-0.1), X, Z, "'epsilon'"),
    "epsilon infinite": (SVR(epsilon=np.inf), X, Z, "'epsilon'"),
    "solver": (SVR(solver="primal"), X, Z, "'solver'.*coordinate.*primal"),
    "C": (NuSVR(C=0.0), X, Z, "'C'"),
    "targets": (SVR(), X, np.where(Z > 1, np.nan, Z), "y contains NaN or infinity; targets"),
    "words": (NuSVR(), X, np.where(Z > 0, "up", "down"), "y holds strings"),
    "no targets": (SVR(), X, None, "requires y"),
    "length": (SVR(), X, Z[:-1], "X has 150, y has 149"),
    "samples": (OneClassSVM(), np.where(X > 2, np.inf, X), None, "infinity"),
    "precomputed": (OneClassSVM(kernel="precomputed", standardize=True), X, None, "standardize=True needs features"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_fitted(name):
    bad, rows, y, words = BAD[name]
    weight = np.where(y, 1.0, 0.1) if name == "nu of weights" else None
    with pytest.raises(ValueError, match=f"(?s){words}"):
        bad.fit(rows, y, sample_weight=weight)
    assert not bad.__sklearn_is_fitted__()


def test_the_largest_nu_that_the_message_names_is_feasible():
    y = np.arange(150) < 50
    found = NuSVC(nu=0.666666, gamma=GAMMA).fit(X, y)
    assert found.converged_ and np.isfinite(found.decision_function(X)).all()
    exactly = NuSVC(nu=2 / 3, gamma=GAMMA).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), exactly.decision_function(X), atol=1e-2)


def test_constant_targets_and_no_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = SVR().fit(X, np.full(150, 3.0))
        near = SVR(epsilon=10.0).fit(X, Z)
    np.testing.assert_allclose(flat.predict(X), 3.0, atol=0.1)
    assert len(near.support_) == 0 and np.abs(near.predict(X) - Z).max() <= 10.0


@pytest.mark.parametrize("is_constant", [True, False])
def test_targets_without_errors_on_long_rows(is_constant):
    """Both multipliers of a sample are then at their bound, and the sum of their kernel rows is exactly 0."""
    rng = np.random.default_rng(0)
    X = 1e6 * rng.normal(size=(40, 5))
    y = np.full(40, 3.0) if is_constant else 1e-6 * X @ rng.normal(size=5)
    model = NuSVR(kernel="linear", C=10, max_iter=10_000).fit(X, y)
    assert model.converged_
    np.testing.assert_allclose(model.predict(X), y, atol=2e-3)


@pytest.mark.parametrize("nu", [0.95, 1.0])
def test_epsilon_is_not_below_zero(nu):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + rng.normal(scale=0.1, size=40)
    for C in (0.1, 10.0):
        model = NuSVR(nu=nu, C=C, tol=1e-2).fit(X, y)
        assert model.epsilon_ >= 0
        losses = np.maximum(np.abs(model.predict(X) - y) - model.epsilon_, 0)
        squares = model.dual_coef_[0] @ (model.predict(X)[model.support_] - model.intercept_[0])
        primal = 0.5 * squares + C * (losses.sum() + nu * len(y) * model.epsilon_)
        assert primal == pytest.approx(model.objective_, rel=1e-3)
