import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from searches import both
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import estimator_checks_generator

from fastsvm import SVC, NuSVC, SVCSearch, kernels, open_hdf5
from fastsvm.estimators.kernel import one_vs_one
from fastsvm.estimators.search import shared_fits

GRID = {"C": [0.1, 1, 30], "gamma": [0.01, 0.1]}


# --- the same as GridSearchCV ---------------------------------------------------------------------------------


def test_several_classes_with_names(iris, shared):
    X, y = iris
    ours, theirs = both(X, y, GRID)
    assert len(shared) == 6 * 5
    assert (ours.predict(X) == theirs.predict(X)).all()
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X))
    assert ours.score(X, y) == theirs.score(X, y)
    assert (ours.classes_ == theirs.classes_).all() and ours.n_features_in_ == 4
    assert ours.refit_time_ > 0 and ours.best_estimator_.converged_


def test_ten_classes(ten_digits, shared):
    both(*ten_digits, {"C": [0.1, 10], "gamma": [0.02, "scale"]}, cv=3)
    assert len(shared) == 4 * 3


@pytest.mark.parametrize("scoring", ["roc_auc", "f1", "balanced_accuracy"])
def test_two_classes(digits, scoring, shared):
    X, y = digits
    both(X, y % 2, GRID, cv=3, scoring=scoring)
    assert len(shared) == 6 * 3


@pytest.mark.parametrize(
    "grid",
    [
        {"kernel": ["linear", "poly", "sigmoid", "laplacian"], "C": [0.1, 2]},
        {"kernel": ["poly"], "degree": [2, 3], "coef0": [0.0, 1.0], "gamma": ["auto", 0.05]},
        {"kernel": [kernels.RBF(gamma=0.1), kernels.RBF(gamma=0.3)], "C": [1, 5]},
        {"kernel": [rbf_kernel], "C": [1, 5]},
        [{"kernel": ["linear"], "C": [1, 2]}, {"kernel": ["rbf"], "gamma": ["scale", 0.2], "C": [1, 2]}],
        {"class_weight": [None, "balanced", {"setosa": 5}], "C": [0.05, 1]},
        {"tol": [1e-3, 1e-5], "C": [0.5, 5], "decision_function_shape": ["ovo", "ovr"], "break_ties": [False]},
        {"solver": ["smo", "coordinate"], "C": [0.5, 5], "shrinking": [True, False]},
    ],
    ids=["kernels", "poly", "objects", "function", "grids", "class_weight", "tol", "solver"],
)
def test_grids(iris, grid, shared):
    ours, _ = both(*iris, grid, cv=3)
    assert len(shared) == 3 * len(ours.cv_results_["params"])


@pytest.mark.parametrize(
    "cv",
    [
        StratifiedKFold(3, shuffle=True, random_state=0),
        KFold(3, shuffle=True, random_state=1),
        ShuffleSplit(4, random_state=0),
        PredefinedSplit(np.arange(150) % 4 - 1),
        [(np.arange(150)[::-1], np.arange(0, 150, 7)), (np.arange(0, 150, 2), np.arange(1, 150, 2))],
        [(np.arange(150) % 3 > 0, np.arange(150) % 3 == 0)],
    ],
    ids=["stratified", "k", "shuffle", "predefined", "rows", "masks"],
)
def test_splitters(iris, cv, shared):
    both(*iris, GRID, cv=cv)
    assert shared


def test_rows_drawn_more_than_once_are_fitted_plainly(iris, shared):
    rng = np.random.default_rng(0)
    both(*iris, GRID, cv=[(rng.integers(0, 150, 150), np.arange(150)) for _ in range(2)])
    assert not shared


def test_groups(iris, shared):
    both(*iris, GRID, cv=GroupKFold(3), fit={"groups": np.arange(150) % 7})
    assert shared


def test_sample_weights(iris, shared):
    weight = np.random.default_rng(0).uniform(0, 2, 150) * (np.arange(150) % 9 > 0)
    both(*iris, GRID, cv=3, scoring="accuracy", fit={"sample_weight": weight})
    assert shared


def test_a_class_that_a_fold_does_not_have(shared):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.repeat([0, 1, 2], 20)
    both(X + y[:, None], y, GRID, cv=[(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))])
    assert shared


@pytest.mark.parametrize("kind", ["csr", "float32", "bytes", "frame"])
def test_rows_of_all_kinds(digits, kind, shared):
    X, y = digits
    X = {"csr": sparse.csr_matrix, "float32": np.float32, "bytes": lambda X: (X * 16).astype(np.uint8)}.get(
        kind, lambda X: pd.DataFrame(X, columns=[f"pixel {k}" for k in range(64)])
    )(X)
    gamma = [1e-4, 1e-3] if kind == "bytes" else [0.01, 0.1]
    ours, _ = both(X, y, {"C": [1, 10], "gamma": gamma}, cv=3)
    assert len(shared) == 4 * 3
    assert hasattr(ours, "feature_names_in_") == (kind == "frame")


def test_rows_of_a_file(digits, shared, tmp_path):
    X, y = digits
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = X
        found = SVCSearch(SVC(), GRID, cv=3).fit(file["X"], y)
        few = SVCSearch(SVC(memory="300KB"), {"C": [1, 2]}, cv=3).fit(file["X"], y)
    wanted = SVCSearch(SVC(), GRID, cv=3).fit(X, y)
    assert (found.cv_results_["mean_test_score"] == wanted.cv_results_["mean_test_score"]).all()
    assert len(shared) == 2 * 6 * 3 and few.best_score_ > 0.9


@pytest.mark.parametrize("parameters", [{}, {"solver": ["coordinate"], "max_iter": [10**9]}])
def test_weights_of_a_file(digits, parameters, tmp_path):
    X, y = digits
    weight = np.random.default_rng(0).choice([0.0, 0.01, 100.0], len(y))
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = X, y, weight
    grid = {"C": [1e-3, 1e-2]} | parameters
    wanted = SVCSearch(SVC(), grid, cv=3).fit(X, y, sample_weight=weight)
    with open_hdf5(tmp_path / "rows.h5") as data:
        found = SVCSearch(SVC(), grid, cv=3).fit(data)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"])
    assert found.best_score_ != SVCSearch(SVC(), grid, cv=3).fit(X, y).best_score_


def test_a_matrix_of_kernel_values(iris, shared):
    X, y = iris
    both(rbf_kernel(X), y, {"C": [0.1, 1]}, SVC(kernel="precomputed"), cv=3)
    assert not shared


@pytest.mark.parametrize(
    "parameters", [{"solver": ["primal"], "loss": ["squared_hinge"]}, {"max_iter": [1000]}, {"max_time": [100.0]}]
)
def test_what_cannot_share_is_fitted_plainly(iris, parameters, shared):
    both(*iris, parameters | {"C": [0.1, 1]}, cv=3)
    assert not shared


def test_other_estimators(iris, shared):
    ours, _ = both(*iris, {"C": [0.1, 1]}, LogisticRegression(max_iter=1000), cv=3)
    assert not shared
    assert ours.predict(iris[0]).shape == (150,)


def test_several_scores(iris, shared):
    settings = {"scoring": ["accuracy", "f1_macro"], "cv": 3}
    ours, theirs = both(*iris, GRID, refit="f1_macro", **settings)
    assert ours.score(*iris) == theirs.score(*iris)
    ours, _ = both(*iris, GRID, refit=False, **settings)
    with pytest.raises(AttributeError, match="no attribute 'predict'"):
        ours.predict(iris[0])
    with pytest.raises(AttributeError, match="refit=False"):
        ours.score(*iris)
    with pytest.raises(ValueError, match="refit must be set"):
        SVCSearch(SVC(), GRID, **settings).fit(*iris)
    assert len(shared) == 2 * 6 * 3


def test_scores_and_choices_of_the_user(iris):
    def scores(model, X, y):
        assert model.converged_ and model.support_vectors_.shape == (len(model.support_), X.shape[1])
        return {"right": accuracy_score(y, model.predict(X)), "few": -len(model.support_)}

    both(*iris, GRID, scoring=scores, refit="right", cv=3)
    both(*iris, GRID, refit=lambda results: 3, cv=3)
    with pytest.raises(IndexError, match="out of range"):
        SVCSearch(SVC(), GRID, refit=lambda results: 99).fit(*iris)


# --- what is shared -------------------------------------------------------------------------------------------


def decisions(model, X, y):
    """Score by something that shows every digit of a model."""
    return {"sum": np.abs(model.decision_function(X)).sum(), "gap": model.kkt_violation_, "objective": model.objective_}


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_models_of_folds_are_those_of_plain_fits(three_classes, shape, shared):
    X, y = three_classes
    model = SVC(decision_function_shape=shape, tol=1e-10)
    both(X, y, GRID, model, scoring=lambda *of: decisions(*of)["sum"], cv=3)
    for split, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        for part, found in shared:
            if part.split == split:
                wanted = clone(model).set_params(C=found.C, gamma=found.gamma).fit(X[train], y[train])
                assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-9)
                assert found.kkt_violation_ <= 1e-10 and found.converged_ and found.shape_fit_ == wanted.shape_fit_
                np.testing.assert_array_equal(found.n_support_, wanted.n_support_)
                np.testing.assert_array_equal(found.support_, wanted.support_)
                np.testing.assert_array_equal(found.support_vectors_, wanted.support_vectors_)
                ours, theirs = found.decision_function(X[test].copy()), wanted.decision_function(X[test])
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_later_fits_begin_where_earlier_ones_ended(digits, shared):
    X, y = digits
    SVCSearch(SVC(), {"C": [10.0, 1.0, 100.0], "gamma": [0.05]}, cv=2).fit(X, y)
    n_steps = {(part.split, model.C): model.n_iter_.sum() for part, model in shared}
    assert all(n_steps[k, 100.0] < n_steps[k, 1.0] / 4 for k in range(2))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_rows_in_float32(n_classes, shared):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 12)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=2400), [1.0, 2.0][: n_classes - 1])
    ours = SVCSearch(SVC(), {"C": [0.1, 1, 10], "gamma": [0.1]}, cv=3).fit(X, y)
    theirs = GridSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [0.1]}, cv=3).fit(X, y)
    assert len(shared) == 9 and all(model.converged_ for _, model in shared)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=2e-3)


# --- memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "shares"), [("30MB", True), ("3MB", False)])
def test_any_memory_gives_the_same(ten_digits, memory, shares, shared):
    both(*ten_digits, {"C": [0.1, 10], "gamma": [0.02]}, SVC(memory=memory, tol=1e-6), cv=3)
    assert bool(shared) == shares


@pytest.mark.parametrize("n_classes", [2, 4])
def test_part_of_the_matrix(digits, n_classes, shared):
    X, y = digits
    whole = len(X) ** 2 * 8 / 2**20
    both(X, y % n_classes, {"C": [0.1, 10], "gamma": [0.02]}, SVC(cache_size=0.7 * whole, tol=1e-6), cv=3)
    assert len(shared) == 2 * 3


def test_memory_too_little_for_any_fit(digits):
    with pytest.raises(ValueError, match="MB are enough"):
        SVCSearch(SVC(memory=1000), {"C": [1, 2]}).fit(*digits)


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ([], "no cells"),
        ({"C": []}, "empty"),
        ({"C": [1, -1]}, r"cannot be fitted, {'C': -1}: The 'C' parameter of SVC must be"),
        ({"gama": [1]}, "Invalid parameter 'gama'"),
        ({"solver": ["smo"], "loss": ["hinge", "squared_hinge"]}, "needs solver"),
        ({"memory": ["2 potatoes"]}, "memory must be"),
    ],
)
def test_bad_grids(iris, grid, words, monkeypatch):
    def never(*given):
        raise AssertionError("a fit was begun")

    monkeypatch.setattr(SVC, "fit", never)
    monkeypatch.setattr(shared_fits, "solve_paths", never)
    with pytest.raises(ValueError, match=words):
        SVCSearch(SVC(), grid).fit(*iris)


@pytest.mark.parametrize("grid", [{"C": 1}, {"kernel": "rbf"}, "C", 3])
def test_grids_of_another_type(iris, grid):
    with pytest.raises(TypeError):
        SVCSearch(SVC(), grid).fit(*iris)


def test_other_errors(iris):
    X, y = iris
    with pytest.raises(ValueError, match="no splits"):
        SVCSearch(SVC(), GRID, cv=[]).fit(X, y)
    with pytest.raises(ValueError, match="requires y"):
        SVCSearch(SVC(), GRID).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        SVCSearch(SVC(), GRID).fit(np.where(X > 7.8, np.nan, X), y)
    with pytest.raises(ValueError, match="must return a number"):
        SVCSearch(SVC(), GRID, scoring=lambda model, X, y: model.predict(X)).fit(X, y)
    with pytest.raises(ValueError, match="number of classes"):
        SVCSearch(SVC(), GRID, cv=KFold(3), error_score="raise").fit(X[:60], np.repeat([0, 1], [20, 40]))
    with pytest.raises(InvalidParameterError, match="'cv' parameter of SVCSearch"):
        SVCSearch(SVC(), GRID, cv=1).fit(X, y)
    with pytest.raises(AttributeError, match="SVC has none of the following attributes: predict_proba"):
        SVCSearch(SVC(), GRID, scoring="neg_log_loss", error_score="raise").fit(X, y)
    with pytest.raises(ValueError, match="'error_score' parameter of SVCSearch"):
        SVCSearch(SVC(), GRID, error_score="ignore").fit(X, y)
    with pytest.raises(NotFittedError):
        SVCSearch(SVC(), GRID).predict(X)


def test_an_error_in_a_fit_stops_the_others(digits, monkeypatch):
    begun, step = [], one_vs_one.drive

    def failing(*given):
        begun.append(1)
        if len(begun) == 5:
            raise MemoryError("no more")
        return step(*given)

    monkeypatch.setattr(one_vs_one, "drive", failing)
    with pytest.raises(MemoryError, match="no more"):
        SVCSearch(SVC(), GRID, error_score="raise").fit(*digits)
    assert len(begun) < 20


CHECKS = list(estimator_checks_generator(SVCSearch(SVC(), {"C": [0.1, 1]}, cv=2)))


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[check.func.__name__ for _, check in CHECKS])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_the_model_is_one_of_svc_where_none_is_given(iris):
    grid = {"gamma": [0.1, 1.0]}
    found, wanted = (clone(search).fit(*iris) for search in (SVCSearch(param_grid=grid), SVCSearch(SVC(), grid)))
    assert found.best_params_ == wanted.best_params_
    np.testing.assert_array_equal(found.decision_function(iris[0]), wanted.decision_function(iris[0]))


def test_many_classes_of_few_samples_are_fitted_by_themselves(monkeypatch):
    def slow(*_):
        raise AssertionError("a solver in Python for each pair")

    monkeypatch.setattr(shared_fits, "solve_paths", slow)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 20
    X = rng.normal(size=(20, 5))[y] + 0.5 * rng.normal(size=(120, 5))
    search = SVCSearch(param_grid={"C": [0.1, 10.0]}, cv=2).fit(X, y)
    other = GridSearchCV(SVC(), {"C": [0.1, 10.0]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])


# --- the choice -----------------------------------------------------------------------------------------------


def test_the_simplest_cell_within_a_standard_error():
    X, y = make_classification(150, 5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.2, random_state=1)
    grid = {"C": [0.25, 0.5, 1, 2, 4], "gamma": [0.05, 0.1, 0.2]}
    best, simple = (SVCSearch(SVC(), grid, refit=refit).fit(X, y) for refit in (True, "one_standard_error"))
    results, cells = simple.cv_results_, simple.cv_results_["params"]
    mean = results["mean_test_score"]
    near = np.flatnonzero(mean >= best.best_score_ - best.best_score_error_)
    assert simple.best_index_ in near and simple.best_score_ == mean[simple.best_index_] <= best.best_score_
    assert simple.best_params_ == min((cells[k] for k in near), key=lambda cell: (cell["C"], cell["gamma"]))
    assert simple.best_params_ != best.best_params_ and simple.oof_decision_.shape == (150, 3)
    assert simple.best_params_["C"] == simple.best_estimator_.C


def test_the_simplest_cell_of_a_walk_and_of_a_pipeline_has_all_samples(digits):
    X, y = digits
    walked = SVCSearch(cv=3, refit="one_standard_error").fit(X, y % 2)
    sizes = walked.cv_results_["n_resources"]
    assert sizes[walked.best_index_] == sizes.max()
    nu = SVCSearch(make_pipeline(StandardScaler(), NuSVC()), {"nusvc__nu": [0.05, 0.06]}, cv=3)
    assert nu.set_params(refit="one_standard_error").fit(X, y % 2).best_params_ == {"nusvc__nu": 0.06}
    bad = SVCSearch(SVC(), GRID, cv=2, scoring=["accuracy", "f1"], refit="one_standard_error")
    with pytest.raises(ValueError, match="refit"):
        bad.fit(X, y % 2)


def test_values_at_the_edge_are_named(iris):
    X, y = iris
    found = SVCSearch(SVC(), {"C": [1e-3, 1e-2, 1e-1], "gamma": [1e-3, 0.1, 100], "tol": [1e-3, 1e-4]}).fit(X, y)
    assert found.best_at_edge_ == {"C": "largest"} and found.best_params_["gamma"] == 0.1
    assert SVCSearch(SVC(), {"C": [1, 10, 1e4], "kernel": ["rbf", "linear"]}).fit(X, y).best_at_edge_ in (
        {},
        {"C": "least"},
    )
