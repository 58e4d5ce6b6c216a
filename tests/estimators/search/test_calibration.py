"""Probabilities are scikit-learn's, by folds that begin at the solution for all samples."""

import pickle
import warnings

import h5py
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, LeaveOneOut, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR as TheirSVR
from sklearn.utils.fixes import parse_version

import fastsvm
from fastsvm import (
    SVC,
    SVR,
    CalibratedClassifier,
    LinearSVC,
    LogisticRegression,
    NuSVC,
    NystroemSVC,
    SGDClassifier,
    SVCSearch,
    from_sklearn,
    open_hdf5,
    to_sklearn,
)
from fastsvm.estimators.kernel.one_vs_one import KernelFit
from fastsvm.estimators.search import calibration

HAS_TEMPERATURE = parse_version(sklearn.__version__) >= parse_version("1.8")
METHODS = "sigmoid", "isotonic", *(["temperature"] if HAS_TEMPERATURE else [])

X, TWO = make_classification(300, n_features=6, n_informative=4, flip_y=0.1, random_state=0)
THREE = TWO + (X[:, 0] + X[:, 1] > 1)
WEIGHT = np.random.default_rng(3).integers(0, 4, 300).astype(float)
MODELS = {
    "svc": SVC(C=10, gamma=0.1, tol=1e-7),
    "scale": SVC(C=3, tol=1e-7),
    "standardized": SVC(C=3, tol=1e-7, standardize=True),
    "coordinate": SVC(solver="coordinate", gamma=0.1, tol=1e-7),
    "balanced": SVC(C=2, gamma=0.2, class_weight="balanced", tol=1e-7),
    "primal": SVC(solver="primal", loss="squared_hinge", gamma=0.1, tol=1e-7),
    "limited": SVC(C=10, gamma=0.1, tol=1e-7, max_time=100),
    "nu": NuSVC(nu=0.2, gamma=0.1, tol=1e-9),
    "linear": LinearSVC(tol=1e-9, random_state=0),
    "logistic": LogisticRegression(tol=1e-9),
    "nystroem": NystroemSVC(gamma=0.1, tol=1e-8, n_components=30, random_state=0),
    "sgd": SGDClassifier(random_state=0, max_iter=20, tol=None),
}
TOGETHER = {"svc", "scale", "coordinate", "balanced", "nu"}


@pytest.fixture
def folds(monkeypatch):
    """Return a list that gets the number of rows of each fold that is solved on the rows of a fit."""
    found, add = [], KernelFit.add_fold

    def recorded(self, problems, upper):
        found.append(len(upper))
        return add(self, problems, upper)

    monkeypatch.setattr(KernelFit, "add_fold", recorded)
    return found


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_those_of_scikit_learn(name, method, y, folds):
    model = MODELS[name]
    ours = CalibratedClassifier(model, method=method, cv=4).fit(X, y)
    theirs = CalibratedClassifierCV(model, method=method, cv=4, ensemble=False).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    together = name in TOGETHER - ({"scale"} if method == "isotonic" else set())
    assert folds == [300] * 4 * together
    probabilities = ours.predict_proba(X)
    np.testing.assert_array_equal(ours.predict(X), ours.classes_[probabilities.argmax(axis=1)])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert ours.score(X, y) == np.mean(ours.predict(X) == y)


@pytest.mark.parametrize("name", ["svc", "nu", "logistic"])
@pytest.mark.parametrize("method", METHODS)
def test_weights_and_groups_are_those_of_scikit_learn(name, method):
    model, groups, words = MODELS[name], np.arange(300) // 10, np.array(["ab", "cd", "ef", "gh"])[THREE]
    cv = list(GroupKFold(3).split(X, words, groups))
    theirs = CalibratedClassifierCV(model, method=method, cv=cv, ensemble=False).fit(X, words, WEIGHT)
    ours = CalibratedClassifier(model, method=method, cv=GroupKFold(3)).fit(X, words, WEIGHT, groups)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    assert ours.predict(X).dtype == words.dtype
    heavy = CalibratedClassifier(model, method=method, cv=cv).fit(X, words)
    assert np.abs(heavy.predict_proba(X) - ours.predict_proba(X)).max() > 1e-2


@pytest.mark.parametrize("name", sorted(TOGETHER))
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("n", [300, 2400])
def test_folds_on_the_rows_of_the_fit_are_the_fits_of_their_samples(name, y, n):
    """Small problems are solved again from the solution; of larger ones the steps leave the decision values."""
    rng = np.random.default_rng(n)
    rows = np.tile(X, (n // 300, 1)) + rng.normal(scale=0.3, size=(n, 6))
    rows[n // 2 :: 7] = rows[: len(rows[n // 2 :: 7])]  # equal rows, which a fit merges, are in several folds
    labels, model = np.tile(y, n // 300), clone(MODELS[name]).set_params(gamma=0.1)
    ours = CalibratedClassifier(model, cv=3).fit(rows, labels)
    plain = clone(model).fit(rows, labels)
    np.testing.assert_array_equal(ours.estimator_.dual_coef_, plain.dual_coef_)
    assert ours.estimator_.history_.keys() == plain.history_.keys()
    assert len(ours.estimator_.history_["time"]) == len(plain.history_["time"])
    for train, test in StratifiedKFold(3).split(rows, labels):
        fold = clone(model).fit(rows[train], labels[train])
        np.testing.assert_allclose(ours.oof_decision_[test], fold.decision_function(rows[test]), atol=1e-4)


def test_folds_take_fewer_steps_than_fits_from_zero(monkeypatch):
    steps, solve = [], KernelFit.solve

    def counted(self, *args, **kwargs):
        ended = solve(self, *args, **kwargs)
        steps.append(ended.n_steps)
        return ended

    monkeypatch.setattr(KernelFit, "solve", counted)
    rows, y = make_classification(3000, n_features=8, n_informative=6, flip_y=0.05, random_state=1)
    CalibratedClassifier(SVC(gamma=0.05)).fit(rows, y)
    assert len(steps) == 6 and max(steps[1:]) < 0.6 * steps[0]


def test_samples_that_several_folds_or_none_test():
    several = ShuffleSplit(5, test_size=0.3, random_state=0)
    model = CalibratedClassifier(SVC(gamma=0.1), cv=several).fit(X, TWO)
    tested = np.unique(np.concatenate([test for _, test in several.split(X)]))
    assert 0 < len(tested) < 300
    np.testing.assert_array_equal(np.isfinite(model.oof_decision_), np.isin(np.arange(300), tested))
    sums, counts = np.zeros(300), np.zeros(300)
    for train, test in several.split(X):
        sums[test] += SVC(gamma=0.1).fit(X[train], TWO[train]).decision_function(X[test])
        counts[test] += 1
    np.testing.assert_allclose(model.oof_decision_[tested], (sums / np.maximum(counts, 1))[tested], atol=5e-3)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_a_fitted_estimator_is_calibrated_by_other_samples(shape):
    given = SVC(gamma=0.1, decision_function_shape=shape).fit(X[:200], THREE[:200])
    model = CalibratedClassifier(given, cv="prefit", method="sigmoid").fit(X[200:], THREE[200:])
    np.testing.assert_array_equal(model.estimator_.dual_coef_, given.dual_coef_)
    assert given.decision_function_shape == shape
    again = SVC(gamma=0.1).fit(X[:200], THREE[:200])
    np.testing.assert_array_equal(model.oof_decision_, again.decision_function(X[200:]))
    crossed = CalibratedClassifier(SVC(gamma=0.1, decision_function_shape=shape)).fit(X, THREE)
    assert crossed.oof_decision_.shape == (300, len(np.unique(THREE)))
    with pytest.raises(NotFittedError):
        CalibratedClassifier(SVC(), cv="prefit").fit(X, TWO)
    with pytest.raises(ValueError, match="classes"):
        CalibratedClassifier(given, cv="prefit").fit(X[200:], np.minimum(THREE[200:], 1))


def test_samples_from_files_sparse_rows_and_kernel_matrices(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = X, TWO
    for model in (SVC(gamma=0.1, tol=1e-6), LinearSVC(tol=1e-6, random_state=0)):
        dense = CalibratedClassifier(model).fit(X, TWO)
        with open_hdf5(tmp_path / "a.h5") as data:
            stored = CalibratedClassifier(model).fit(data)
            np.testing.assert_allclose(stored.predict_proba(data), dense.predict_proba(X), atol=1e-6)
            assert stored.score(data) == dense.score(X, TWO)
        rows = CalibratedClassifier(model).fit(sparse.csr_matrix(X), TWO)
        np.testing.assert_allclose(rows.predict_proba(X), dense.predict_proba(X), atol=1e-4)
    gram = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    from_matrix = CalibratedClassifier(SVC(kernel="precomputed", tol=1e-6)).fit(gram, TWO)
    wanted = CalibratedClassifier(SVC(gamma=0.1, tol=1e-6)).fit(X, TWO).predict_proba(X)
    np.testing.assert_allclose(from_matrix.predict_proba(gram), wanted, atol=1e-5)


def test_clone_pickle_and_a_failed_fit():
    model = CalibratedClassifier(SVC(gamma=0.1), method="isotonic", cv=3).fit(X, TWO)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, TWO[:-1])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), before)
    assert not hasattr(clone(model), "estimator_") and clone(model).get_params()["estimator__gamma"] == 0.1
    assert not {"_held_out", "_checkpoints"} & vars(model.estimator_).keys()
    with pytest.raises(NotFittedError):
        CalibratedClassifier().predict_proba(X)


def test_what_cannot_be_calibrated_is_refused():
    with pytest.raises(TypeError, match="classifier of fastsvm"):
        CalibratedClassifier(SVR()).fit(X, TWO)
    with pytest.raises(TypeError, match="classifier of fastsvm"):
        CalibratedClassifier(TheirSVR()).fit(X, TWO)
    with pytest.raises(ValueError, match="method"):
        CalibratedClassifier(method="platt").fit(X, TWO)
    with pytest.raises(ValueError, match="cv"):
        CalibratedClassifier(cv="five").fit(X, TWO)
    lone = np.append(np.zeros(19, int), 1)
    with pytest.raises(ValueError, match="fold 19 have no sample of class 1"):
        CalibratedClassifier(cv=LeaveOneOut()).fit(X[:20], lone)
    with pytest.raises(ValueError, match="no splits"):
        CalibratedClassifier(cv=[]).fit(X, TWO)


# --- searches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_search_has_probabilities_without_further_fits(method, monkeypatch):
    grid = {"C": [1.0, 10.0], "gamma": [0.1]}
    plain = SVCSearch(SVC(tol=1e-7), grid).fit(X, THREE, sample_weight=WEIGHT)
    assert not hasattr(plain, "predict_proba")
    fits = []
    monkeypatch.setattr(KernelFit, "add_fold", lambda *args: fits.append(args))
    search = SVCSearch(SVC(tol=1e-7), grid, calibration=method).fit(X, THREE, sample_weight=WEIGHT)
    assert fits == []
    monkeypatch.undo()
    model = CalibratedClassifier(SVC(tol=1e-7, **search.best_params_), method=method).fit(X, THREE, WEIGHT)
    np.testing.assert_allclose(search.predict_proba(X), model.predict_proba(X), atol=1e-3)
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    np.testing.assert_array_equal(clone(search).get_params()["calibration"], method)


def test_searches_without_decision_values_of_classes_are_refused():
    with pytest.raises(ValueError, match="and refit"):
        SVCSearch(SVC(), {"C": [1.0]}, calibration="sigmoid", refit=False).fit(X, TWO)
    with pytest.raises(ValueError, match='pass decision_function_shape="ovr"'):
        SVCSearch(SVC(decision_function_shape="ovo"), {"C": [1.0]}, calibration="sigmoid").fit(X, THREE)
    pairs = make_pipeline(StandardScaler(), SVC())
    with pytest.raises(ValueError, match='pass decision_function_shape="ovr"'):
        SVCSearch(pairs, {"svc__decision_function_shape": ["ovo"]}, calibration="sigmoid").fit(X, THREE)
    with pytest.raises(ValueError, match="classifier"):
        SVCSearch(SVR(), {"C": [1.0]}, calibration="sigmoid").fit(X, X[:, 0])
    assert hasattr(SVCSearch(LogisticRegression(), {"C": [1.0]}), "predict_proba")


# --- files and scikit-learn -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["svc", "logistic", "nystroem"])
def test_models_are_stored_and_become_those_of_scikit_learn(name, method, y, tmp_path):
    words = np.array(["ab", "cd", "ef"])[y]
    model = CalibratedClassifier(MODELS[name], method=method, cv=3).fit(X, words)
    fastsvm.save(model, tmp_path / "a.model")
    again = fastsvm.load(tmp_path / "a.model")
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again) == repr(model) and again.n_features_in_ == 6
    theirs = to_sklearn(model)
    assert isinstance(theirs, CalibratedClassifierCV) and b"fastsvm" not in pickle.dumps(theirs)
    np.testing.assert_allclose(theirs.predict_proba(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(theirs.predict(X), model.predict(X))
    with pytest.raises(TypeError):
        from_sklearn(theirs)


def test_stored_searches_and_fitted_ones_keep_their_probabilities(tmp_path):
    search = SVCSearch(SVC(), {"C": [1.0], "gamma": [0.1, 0.2]}, calibration="isotonic").fit(X, TWO)
    fastsvm.save(search, tmp_path / "a.model")
    np.testing.assert_allclose(fastsvm.load(tmp_path / "a.model").predict_proba(X), search.predict_proba(X), rtol=1e-12)
    given = CalibratedClassifier(SVC().fit(X, TWO), cv="prefit").fit(X, TWO)
    fastsvm.save(given, tmp_path / "b.model")
    again = fastsvm.load(tmp_path / "b.model")
    np.testing.assert_array_equal(again.predict_proba(X), given.predict_proba(X))
    assert again.fit(X, TWO).cv == "prefit"


def test_models_that_cannot_be_stored_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        fastsvm.save(CalibratedClassifier(), tmp_path / "a.model")
    with pytest.raises(TypeError, match=r"cv=.*pickled"):
        fastsvm.save(CalibratedClassifier(cv=StratifiedKFold(3)).fit(X, TWO), tmp_path / "a.model")
    with pytest.raises(NotFittedError):
        to_sklearn(CalibratedClassifier())


@pytest.mark.parametrize("method", METHODS)
def test_forged_calibrations_are_refused(method):
    made = CalibratedClassifier(SVC(), method=method).fit(X, TWO)._calibration
    arrays = made.arrays()
    forged = {name: array.copy() for name, array in arrays.items()}
    forged["calibrator0"].flat[0] = np.nan
    for wrong in (
        {},
        arrays | {"more": np.ones(1)},
        forged,
        {"calibrator0": np.ones((3, 3))},
        {"calibrator0": np.ones(0)},
    ):
        with pytest.raises(ValueError, match="calibrat"):
            calibration.Calibration.from_arrays(method, made.classes, wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibration.Calibration.from_arrays(method, made.classes, arrays)
