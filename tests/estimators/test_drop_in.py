"""fastsvm in place of scikit-learn: each difference has a row in docs/coming_from/scikit_learn.md."""

import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.base import is_regressor
from sklearn.datasets import load_iris

import fastsvm

pytestmark = [
    pytest.mark.filterwarnings("ignore:Attribute `prob"),
    pytest.mark.skipif(
        importlib.util.find_spec("sklearn.callback") is None, reason="the page is about scikit-learn 1.9 and later"
    ),
]
TABLE = Path(__file__).parents[2] / "docs" / "coming_from" / "scikit_learn.md"
X, Y = load_iris(return_X_y=True)
PAIRS = {
    "SVC": (fastsvm.SVC, svm.SVC),
    "SVR": (fastsvm.SVR, svm.SVR),
    "NuSVR": (fastsvm.NuSVR, svm.NuSVR),
    "NuSVC": (fastsvm.NuSVC, svm.NuSVC),
    "OneClassSVM": (fastsvm.OneClassSVM, svm.OneClassSVM),
    "LinearSVC": (fastsvm.LinearSVC, svm.LinearSVC),
    "SGDClassifier": (fastsvm.SGDClassifier, linear_model.SGDClassifier),
}


def rows():
    """Yield class, what, name and difference of each row of the table, one for each name."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0] in PAIRS:
            assert cells[4], f"no reason: {line}"
            for name in cells[2].split(", "):
                yield cells[0], cells[1], name, cells[3]


def written(kind, what):
    """Return the differences in the table, by name."""
    return {name: difference for k, w, name, difference in rows() if (k, w) == (kind, what)}


def compared(ours, theirs, same):
    """Return the differences of two dicts, whose values are compared by `same`."""
    found = dict.fromkeys(set(ours) - set(theirs), "more") | dict.fromkeys(set(theirs) - set(ours), "missing")
    return found | {name: "other" for name in set(ours) & set(theirs) if not same(ours[name], theirs[name])}


@pytest.fixture(scope="module")
def fitted():
    """Return both fitted models of each pair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: [kind() for kind in pair] for name, pair in PAIRS.items()}
        for pair in models.values():
            for model in pair:
                given = {"tol": 1e-8} if is_regressor(model) else {}  # the same numbers of support vectors
                model.set_params(**given).fit(X, np.sin(np.arange(150)) if given else Y)
        return models


@pytest.mark.parametrize("name", PAIRS)
def test_parameters(name):
    ours, theirs = (kind().get_params() for kind in PAIRS[name])
    assert compared(ours, theirs, lambda a, b: a == b) == written(name, "parameter")


def attributes(model):
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def alike(a, b):
    """Return whether two attributes have the same type, shape and dtype."""
    if isinstance(b, (int, np.integer)):
        return isinstance(a, (int, np.integer))
    return type(a) is type(b) and np.shape(a) == np.shape(b) and getattr(a, "dtype", 0) == getattr(b, "dtype", 0)


@pytest.mark.parametrize("name", PAIRS)
def test_attributes(name, fitted):
    assert compared(*map(attributes, fitted[name]), alike) == written(name, "attribute")


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
def test_attributes_of_sparse_samples(classes, form):
    few = np.isin(Y, range(classes))
    ours, theirs = (kind(kernel="linear").fit(form(X[few]), Y[few]) for kind in PAIRS["SVC"])
    assert compared(attributes(ours), attributes(theirs), alike) == written("SVC", "attribute")


def methods(model):
    return {name: name for name in dir(model) if not name.startswith("_") and callable(getattr(model, name, None))}


@pytest.mark.parametrize("name", PAIRS)
def test_methods(name, fitted):
    assert compared(*map(methods, fitted[name]), lambda a, b: a == b) == written(name, "method")


# --- errors ------------------------------------------------------------------------------------------------


def weighted(weight):
    return lambda kind: kind().fit(X, Y, sample_weight=weight)


def with_parameters(**parameters):
    return lambda kind: kind(**parameters).fit(X, Y)


EVERY = {
    "one class": lambda kind: kind().fit(X, np.zeros(150)),
    "weights of zero": weighted(np.zeros(150)),
    "negative weights": weighted(-np.ones(150)),
    "too few weights": weighted(np.ones(10)),
    "one class left by weights": weighted((Y == 0).astype(float)),
    "NaN": lambda kind: kind().fit(np.where(X > 7, np.nan, X), Y),
    "infinity": lambda kind: kind().fit(np.where(X > 7, np.inf, X), Y),
    "too few labels": lambda kind: kind().fit(X, Y[:10]),
    "one dimension": lambda kind: kind().fit(X[:, 0], Y),
    "three dimensions": lambda kind: kind().fit(X[None], Y),
    "words": lambda kind: kind().fit(np.full((150, 2), "a"), Y),
    "real labels": lambda kind: kind().fit(X, Y + np.linspace(0, 0.5, 150)),
    "no labels": lambda kind: kind().fit(X, None),
    "two columns of labels": lambda kind: kind().fit(X, np.c_[Y, Y]),
    "no samples": lambda kind: kind().fit(X[:0], Y[:0]),
    "no features": lambda kind: kind().fit(X[:, :0], Y),
    "complex": lambda kind: kind().fit(X + 1j, Y),
    "labels of two types": lambda kind: kind().fit(X, np.array([1, "a"] * 75, dtype=object)),
    "not fitted": lambda kind: kind().predict(X),
    "other features at predict": lambda kind: kind().fit(X, Y).predict(X[:, :2]),
    "class_weight of an unknown class": with_parameters(class_weight={7: 2}),
    "class_weight as a word": with_parameters(class_weight="x"),
    "a negative tol": with_parameters(tol=-1),
    "a negative max_iter": with_parameters(max_iter=-5),
    "random_state as a word": with_parameters(random_state="a"),
    "verbose as a word": with_parameters(verbose="x"),
    "an unknown parameter": with_parameters(gama=1),
    "probabilities": lambda kind: kind().fit(X, Y).predict_proba(X),
}
OWN = {
    "SVC": {
        "a negative C": with_parameters(C=-1),
        "C=True": with_parameters(C=True),
        "infinite C": with_parameters(C=np.inf),
        "an unknown kernel": with_parameters(kernel="x"),
        "an unknown gamma": with_parameters(gamma="x"),
        "coef_ of rbf": lambda kind: kind().fit(X, Y).coef_,
        "break_ties with ovo": lambda kind: kind(break_ties=True, decision_function_shape="ovo").fit(X, Y).predict(X),
        "a matrix that is not square": with_parameters(kernel="precomputed"),
    },
    "LinearSVC": {
        "a negative C": with_parameters(C=-1),
        "C=True": with_parameters(C=True),
        "an unknown loss": with_parameters(loss="x"),
        "dual=False with the hinge": with_parameters(dual=False, loss="hinge"),
    },
    "SGDClassifier": {
        "alpha=True": with_parameters(alpha=True),
        "a negative alpha": with_parameters(alpha=-1),
        "an unknown loss": with_parameters(loss="x"),
        "a rate of zero": with_parameters(learning_rate="constant", eta0=0),
        "partial_fit without classes": lambda kind: kind().partial_fit(X, Y),
        "partial_fit with another class": lambda kind: kind().partial_fit(X, Y, classes=[0, 1]),
    },
}


def error_of(case, kind):
    """Return the class of the error of a case, None if there is none, and its message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case(kind)
        except Exception as error:
            return type(error), str(error)
    return None, ""


@pytest.mark.parametrize("name", OWN)
def test_errors_are_of_the_same_classes(name):
    cases = EVERY | OWN[name]
    ours, theirs = ({words: error_of(case, kind)[0] for words, case in cases.items()} for kind in PAIRS[name])
    assert compared(ours, theirs, lambda a, b: a is b) == written(name, "error")
    assert len(ours) >= 30


MATCHED = {
    "weights of zero": "Invalid input - all samples have zero or negative weights|at least one non-zero number",
    "one class left by weights": "all samples with positive weights belong to the same class",
    "one class": "The number of classes has to be greater than one; got 1 class|at least 2 classes",
    "too few weights": r"\(10,\)",
    "NaN": r"Input X contains NaN\.",
    "infinity": "Input X contains infinity",
    "too few labels": r"Found input variables with inconsistent numbers of samples: \[150, 10\]",
    "one dimension": "Expected 2D array, got 1D array instead",
    "three dimensions": "Found array with dim 3",
    "real labels": "Unknown label type: ",
    "no labels": "estimator requires y to be passed, but the target y is None",
    "two columns of labels": "y should be a 1d array",
    "no samples": r"Found array with 0 sample\(s\)",
    "no features": r"Found array with 0 feature\(s\)",
    "complex": "Complex data not supported",
    "not fitted": "instance is not fitted yet",
    "other features at predict": "X has 2 features, but .* is expecting 4 features as input",
    "class_weight of an unknown class": r"The classes, \[0, 1, 2\], are not in class_weight",
    "a negative tol": "The 'tol' parameter of .* must be",
    "random_state as a word": "The 'random_state' parameter of .* must be",
    "a negative C": "The 'C' parameter of .* must be",
}


@pytest.mark.parametrize("name", OWN)
def test_messages_contain_the_words_that_programs_match_on(name):
    cases = EVERY | OWN[name]
    for words, pattern in MATCHED.items():
        if words in cases:
            for kind in PAIRS[name]:
                found, message = error_of(cases[words], kind)
                assert found is None or re.search(pattern, message), (words, message)
