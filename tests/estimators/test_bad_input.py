import re
from fractions import Fraction
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from fastsvm import SVC, LinearSVC, SGDClassifier, open_hdf5
from fastsvm.estimators.fitting.validation import _check_columns
from fastsvm.sources import as_source

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.arange(60) % 2


def with_value(value, X=X):
    X = X.copy()
    X[17, 2] = value
    return X


def wide(X, Z):
    return np.zeros((len(X), len(Z) + 1))


def undefined(X, Z):
    return np.full((len(X), len(Z)), np.nan)


def without_label(value):
    """Return labels in words; one of them is missing."""
    y = np.array(["no", "yes"], object)[Y]
    y[9] = value
    return y


BAD_DATA = {
    "NaN": ((with_value(np.nan), Y), "NaN.*row 17, column 2"),
    "infinity": ((with_value(np.inf), Y), "infinity.*row 17, column 2"),
    "NaN in float32": ((with_value(np.nan, X.astype(np.float32)), Y), "NaN.*row 17, column 2"),
    "NaN in CSR": ((sparse.csr_array(with_value(np.nan)), Y), "NaN.*row 17, column 2"),
    "one class": ((X, np.zeros(60)), "number of classes"),
    "one class with weight": ((X, Y, Y.astype(float)), "number of classes.*positive weight"),
    "more rows": ((X, Y[:-1]), "X has 60, y has 59"),
    "more labels": ((X[:-1], Y), "X has 59, y has 60"),
    "no rows": ((X[:0], Y[:0]), "0 sample"),
    "no features": ((X[:, :0], Y), "0 feature"),
    "no labels": ((X, None), "y"),
    "one row": ((X[:1], Y[:1]), "number of classes"),
    "numbers as labels": ((X, X[:, 0]), "continuous"),
    "NaN as a label": ((X, np.where(Y, np.nan, 0.0)), "y contains NaN"),
    "no label": ((X, without_label(None)), "NaN or None: the label of sample 9 is None"),
    "NaN among words": ((X, without_label(np.nan)), "NaN or None: the label of sample 9 is nan"),
    "NA among words": ((X, without_label(pd.NA)), "NaN or None: the label of sample 9 is <NA>"),
    "no category": ((X, pd.Series(without_label(None), dtype="category")), "the label of sample 9 is nan"),
    "masked values": ((np.ma.array(X, mask=with_value(np.nan) != with_value(np.nan)), Y), r"X .*first at \[17, 2\]"),
    "masked labels": ((X, np.ma.array(Y, mask=np.arange(60) == 9)), r"y contains masked values, the first at \[9\]"),
    "masked weights": ((X, Y, np.ma.array(np.ones(60), mask=np.arange(60) == 9)), r"sample_weight .* at \[9\]"),
    "labels in two columns": ((X, np.stack([Y, Y], axis=1)), "y should be a 1d array|1d"),
    "one dimension": ((X[:, 0], Y), "2D"),
    "three dimensions": ((X[None], Y), "dim"),
    "complex numbers": ((X.astype(complex), Y), "[Cc]omplex"),
    "times": ((np.arange(180).reshape(60, 3).astype("M8[D]"), Y), "X holds times"),
    "words": ((np.array([["a", "b"]] * 60), Y), "string|numeric|number"),
    "negative weights": ((X, Y, np.where(np.arange(60) == 9, -0.5, 1)), "-0.5 at sample 9"),
    "NaN among weights": ((X, Y, np.where(np.arange(60) == 9, np.nan, 1)), "sample_weight contains NaN"),
    "infinity among weights": ((X, Y, np.where(np.arange(60) == 9, np.inf, 1)), "sample_weight contains"),
    "few weights": ((X, Y, np.ones(59)), "sample_weight"),
    "weights in two columns": ((X, Y, np.ones((60, 2))), "1D"),
    "weights below the numbers": ((X, Y, np.full(60, 1e-320)), "sample_weight sum to .*e-319"),
    "weights beyond the numbers": ((X, Y, np.full(60, 1e308)), "sample_weight sum to inf"),
    "no weights": ((X, Y, np.zeros(60)), "sample_weight are zero"),
    "huge values": ((with_value(1e200), Y), "too large"),
}
BAD_PARAMETERS = {
    "unknown kernel": ({"kernel": "gaussian"}, "kernel.*rbf.*gaussian"),
    "kernel a number": ({"kernel": 3}, "kernel"),
    "C": ({"C": 0}, "'C'"),
    "C negative": ({"C": -1.0}, "'C'"),
    "C NaN": ({"C": np.nan}, "'C'"),
    "C beyond all floats": ({"C": 10**400}, "'C'"),
    "C infinite": ({"C": np.inf}, "'C'"),
    "C a word": ({"C": "1"}, "'C'"),
    "gamma a word": ({"gamma": "large"}, "'gamma'"),
    "gamma negative": ({"gamma": -0.1}, "'gamma'"),
    "gamma infinite": ({"gamma": np.inf}, "'gamma'"),
    "degree": ({"degree": 2.5}, "'degree'"),
    "degree negative": ({"degree": -1}, "'degree'"),
    "coef0": ({"coef0": np.nan}, "'coef0'"),
    "coef0 infinite": ({"coef0": np.inf}, "'coef0'"),
    "tol": ({"tol": 0.0}, "'tol'"),
    "max_iter": ({"max_iter": -2}, "'max_iter'"),
    "max_iter not whole": ({"max_iter": 1.5}, "'max_iter'"),
    "max_time": ({"max_time": -1}, "'max_time'"),
    "cache_size": ({"cache_size": 0}, "'cache_size'"),
    "memory": ({"memory": "lots"}, "memory"),
    "memory a float": ({"memory": 1.5}, "memory"),
    "shape": ({"decision_function_shape": "ovn"}, "'decision_function_shape'"),
    "break_ties": ({"break_ties": 1}, "'break_ties'"),
    "warm_start": ({"warm_start": "yes"}, "'warm_start'"),
    "class_weight a word": ({"class_weight": "equal"}, "class_weight"),
    "class_weight a list": ({"class_weight": [1, 2]}, "class_weight"),
    "class_weight a number": ({"class_weight": 2.0}, "class_weight"),
    "class_weight of another class": ({"class_weight": {7: 1.0}}, "class_weight.*7"),
    "class_weight negative": ({"class_weight": {0: -1.0}}, "class_weight"),
    "class_weight NaN": ({"class_weight": {0: np.nan}}, "class_weight"),
    "class_weight infinite": ({"class_weight": {0: np.inf}}, "class_weight"),
    "class_weight of words": ({"class_weight": {0: "heavy"}}, "class_weight"),
    "wide kernel": ({"kernel": wide}, r"kernel function.*shape \(\d+, \d+\)"),
    "undefined kernel": ({"kernel": undefined}, "kernel function.*NaN"),
    "precomputed, not square": ({"kernel": "precomputed"}, "60x3"),
    "too little memory": ({"memory": 1000}, r"\d+ MB are (needed|enough)"),
}


def refused(model, given, words):
    with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        model.fit(*given)


def unfitted(model):
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_and_leave_the_estimator_unfitted(name):
    model, (given, words) = SVC(), BAD_DATA[name]
    refused(model, given, words)
    unfitted(model)


@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_parameters_are_refused_and_leave_the_estimator_unfitted(name):
    parameters, words = BAD_PARAMETERS[name]
    model = SVC(**parameters)
    refused(model, (X, Y), words)
    unfitted(model)


def test_any_real_number_is_a_parameter():
    assert np.array_equal(SVC(C=Fraction(1, 2)).fit(X, Y).dual_coef_, SVC(C=0.5).fit(X, Y).dual_coef_)


FAILING_REFITS = {
    "rows": (lambda model: model, (with_value(np.nan, 9 * X), Y)),
    "features": (lambda model: model, (with_value(np.nan, np.hstack([X, X])), Y)),
    "gamma": (lambda model: model.set_params(gamma=5.0, memory=1000), (X, Y)),
    "class_weight": (lambda model: model.set_params(class_weight={0: 9.0}, memory=1000), (X, Y)),
}


@pytest.mark.parametrize("name", FAILING_REFITS)
def test_a_failed_second_fit_leaves_the_first_model_or_none(name):
    change, given = FAILING_REFITS[name]
    model = SVC().fit(X, Y)
    before = model.decision_function(X)
    with pytest.raises(ValueError):
        change(model).fit(*given)
    try:
        after = model.set_params(gamma="scale").decision_function(X)
    except NotFittedError:
        return
    np.testing.assert_array_equal(after, before)


def test_the_memory_that_the_message_names_is_enough():
    with pytest.raises(ValueError) as caught:
        SVC(memory=1000).fit(X, Y)
    named = re.search(r"(\d+) MB are (?:needed|enough)", str(caught.value))[1]
    SVC(memory=f"{named}MB").fit(X, Y)


def test_a_kernel_function_that_fails():
    def broken(X, Z):
        raise ZeroDivisionError("mine")

    model = SVC(kernel=broken)
    with pytest.raises(ZeroDivisionError, match="mine"):
        model.fit(X, Y)
    unfitted(model)


# --- prediction ------------------------------------------------------------------------------------------

METHODS = ["predict", "decision_function"]


@pytest.mark.parametrize("method", METHODS)
def test_prediction_needs_a_fit(method):
    with pytest.raises(NotFittedError):
        getattr(SVC(), method)(X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, as_source], ids=["array", "CSR", "source"])
@pytest.mark.parametrize("method", METHODS)
def test_another_number_of_features(method, form):
    with pytest.raises(ValueError, match=r"2 features.*expecting 3"):
        getattr(SVC().fit(X, Y), method)(form(X[:, :2]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, as_source], ids=["array", "CSR", "source"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("method", METHODS)
def test_rows_to_predict_must_be_finite(method, value, form):
    with pytest.raises(ValueError, match="row 17, column 2"):
        getattr(SVC().fit(X, Y), method)(form(with_value(value)))


@pytest.mark.parametrize("rows", [X[:0], X[0], None, "rows"], ids=["none", "1-D", "None", "word"])
def test_what_cannot_be_predicted(rows):
    with pytest.raises((ValueError, TypeError)):
        SVC().fit(X, Y).predict(rows)


def test_ties_of_pairs_cannot_be_broken():
    model = SVC(break_ties=True, decision_function_shape="ovo").fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="break_ties"):
        model.predict(X)


def test_a_score_needs_labels():
    with pytest.raises(ValueError, match="needs y"):
        SVC().fit(X, Y).score(X)


# --- files -----------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("X", data=with_value(np.nan), chunks=(8, 3))
        file["empty"] = np.zeros((0, 3))
        file["narrow"] = np.zeros((60, 0))
        file["good"] = X
    with open_hdf5(tmp_path / "data.h5") as data:
        yield data


def test_a_file_without_labels(data):
    refused(SVC(), (data,), "requires y.*no dataset 'y'")


def test_a_file_with_nan(data):
    refused(SVC(), (data, Y), "NaN.*row 17, column 2")
    with pytest.raises(ValueError, match=r"NaN.*row 17, column 2"):
        SVC().fit(X, Y).predict(data)


@pytest.mark.parametrize("name", ["empty", "narrow"])
def test_an_empty_dataset(name, data):
    rows = data._file[name]
    refused(SVC(), (rows, Y[: len(rows)]), f"{name} in .*is empty")


def test_labels_of_another_length(data):
    refused(SVC(), (data._file["good"], Y[:-1]), "X has 60, y has 59")


def test_a_closed_file(data):
    rows = data._file["good"]
    model = SVC().fit(rows, Y)
    source = as_source(rows)
    data.close()
    with pytest.raises((ValueError, OSError), match=r"closed|data\.h5"):
        model.predict(source)


def test_times_in_a_table_of_polars_are_refused():
    kind = SimpleNamespace(is_temporal=lambda: True)
    with pytest.raises(TypeError, match="Column 'day' of X holds times"):
        _check_columns(SimpleNamespace(columns=["day"], dtypes=[kind]))


WEIGHTS = [
    {0: 2.0, 1: 1.0, 7: 3.0},
    {0: 2.0},
    {7: 3.0},
    {0: 2.0, 7: 3.0},
    {},
    {"0": 2.0, 0: 1.0, 1: 1.0},
]


@pytest.mark.parametrize(
    ("kind", "given"), [*((SVC, given) for given in WEIGHTS), (LinearSVC, WEIGHTS[0]), (SGDClassifier, WEIGHTS[2])]
)
def test_weights_of_classes_that_are_not_there_are_taken_as_scikit_learn_does(kind, given):
    try:
        wanted = compute_class_weight(given, classes=np.array([0, 1]), y=Y)
    except ValueError:
        with pytest.raises(ValueError, match="class_weight has keys that are not classes"):
            kind(class_weight=given).fit(X, Y)
        return
    found = kind(class_weight=given, random_state=0).fit(X, Y)
    same = kind(class_weight=dict(enumerate(wanted)), random_state=0).fit(X, Y)
    assert np.array_equal(found.decision_function(X), same.decision_function(X))


def test_a_fold_may_lack_a_class_that_has_a_weight():
    y = np.where(np.arange(60) == 7, 2, Y)
    scores = cross_val_score(SVC(class_weight={0: 1.0, 1: 1.0, 2: 5.0}), X, y, cv=KFold(5), error_score="raise")
    assert np.isfinite(scores).all()


def test_weights_of_classes_that_are_not_there_must_be_weights():
    refused(SVC(class_weight={0: 1.0, 1: 1.0, 7: -1.0}), (X, Y), "class_weight must be a positive")


def test_nodes_of_hdf5_that_hold_no_rows(tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["type"], file["X"], file["long"] = np.dtype("f8"), X, X.astype(np.longdouble)
        group, rows = file.create_group("csr"), sparse.csr_matrix(X.astype(np.longdouble))
        group["data"], group["indices"], group["indptr"] = rows.data, rows.indices, rows.indptr
        group.attrs["shape"], group.attrs["encoding-type"] = rows.shape, "csr_matrix"
        refused(SVC(), (file["type"], Y), "named type")
        refused(SVC(), (h5py.SoftLink("/nowhere"), Y), "X is an HDF5 link")
        refused(SVC(), (X, file["type"]), "y is .*named type.*has no values")
        refused(SVC(), (X, file["csr"]), "y is .*group.*has no values")
        wanted = SVC().fit(X, Y).decision_function(X)
        for node in (file["long"], file["csr"]):
            assert np.allclose(SVC().fit(node, Y).decision_function(node), wanted, atol=1e-6)
    with h5py.File(tmp_path / "typed.h5", "w") as file:
        file["X"], file["y"] = np.dtype("f8"), Y
    with pytest.raises(ValueError, match="named type"):
        open_hdf5(tmp_path / "typed.h5")


@pytest.mark.parametrize("length", [1e-150, 1e100, 1e150])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_very_long_and_short_rows_are_descended_on(length, make):
    plain = SGDClassifier(random_state=0, fit_intercept=False, alpha=0.0, tol=None, max_iter=5).fit(make(X), Y)
    scaled = clone(plain).fit(make(X * length), Y)
    assert np.allclose(scaled.decision_function(make(X * length)), plain.decision_function(make(X)), rtol=1e-6)
