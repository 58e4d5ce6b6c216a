"""Linear machines as LIBLINEAR's text: the scores are those of LIBLINEAR, whoever wrote the text."""

import numpy as np
import pytest
from model_texts.evaluation import liblinear_decisions
from model_texts.written import LIBLINEAR, ROWS

import fastsvm
from fastsvm import LinearOneClassSVM, LinearSVC, LinearSVR, LogisticRegression, SGDClassifier, SGDRegressor
from fastsvm.exchange.model_text import SOLVERS

ROWS = np.array(ROWS)
FAST = {"max_iter": 5, "tol": None, "random_state": 0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.liblinear"


def compare(model, text, X):
    """Compare the scores of a model with those of a text."""
    labels, found = liblinear_decisions(text, X)
    if not labels:
        scores = getattr(model, "decision_function", model.predict)(X)
        np.testing.assert_allclose(scores, found[:, 0], rtol=1e-10, atol=1e-12)
        return
    if found.shape[1] == 1:
        found = found[:, 0] * (1 if labels[0] > labels[1] else -1)
    else:
        found = found[:, np.argsort(labels)]
        found = found[:, 1] - found[:, 0] if len(labels) == 2 else found
    np.testing.assert_allclose(model.decision_function(X), found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LIBLINEAR)
def test_models_of_liblinear_predict_as_in_liblinear_also_after_being_saved(name, path):
    text, expected = LIBLINEAR[name]
    np.testing.assert_allclose(liblinear_decisions(text, ROWS)[1], expected, rtol=1e-12, atol=1e-14)
    path.write_text(text)
    model = fastsvm.load_libsvm(path)
    kind, parameters = SOLVERS[text.split()[1]]
    assert type(model) is kind
    assert parameters.items() <= model.get_params().items()
    compare(model, text, ROWS)
    assert model.stop_reason_ == "imported" and not hasattr(model, "objective_")
    fastsvm.save(model, path)
    again = fastsvm.load(path)
    np.testing.assert_array_equal(again.predict(ROWS), model.predict(ROWS))
    fastsvm.save_libsvm(again, path)
    compare(again, path.read_text(), ROWS)
    assert type(fastsvm.load_libsvm(path)) is type(model)


def test_all_solvers_are_tried():
    assert {text.split()[1] for text, _ in LIBLINEAR.values()} == SOLVERS.keys()


MODELS = [
    LinearSVC(),
    LinearSVC(loss="hinge", standardize=True),
    LinearSVC(fit_intercept=False),
    LinearSVC(multi_class="crammer_singer"),
    LinearSVC(multi_class="weston_watkins"),
    LinearSVR(),
    LinearSVR(loss="squared_epsilon_insensitive"),
    LinearSVC(penalty="l1"),
    LinearOneClassSVM(nu=0.2),
    LinearOneClassSVM(nu=0.2, standardize=True),
    LogisticRegression(),
    LogisticRegression(penalty="l1", C=0.1),
    SGDClassifier("log_loss", penalty="l1", **FAST),
    SGDClassifier("softmax", **FAST),
    SGDClassifier("modified_huber", **FAST),
    SGDRegressor(**FAST),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_written_texts_have_the_scores_of_the_model(model, n_classes, three_classes, path):
    X, y = three_classes
    model.fit(X, (y % n_classes) * 4 - 3)
    fastsvm.save_libsvm(model, path)
    compare(model, path.read_text(), X)
    again = fastsvm.load_libsvm(path)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)
    if isinstance(again, LogisticRegression):
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_a_model_that_was_read_learns_on(three_classes, path):
    X, y = three_classes
    model = LogisticRegression(penalty="l1").fit(X, y)
    fastsvm.save_libsvm(model, path)
    np.testing.assert_array_equal(fastsvm.load_libsvm(path).fit(X, y).coef_, model.coef_)


def test_more_features_have_no_weight(path):
    path.write_text(LIBLINEAR["s3"][0])
    model = fastsvm.load_libsvm(path, n_features=6)
    assert model.coef_.shape == (1, 6) and not model.coef_[0, 4:].any()
    with pytest.raises(ValueError, match="has 4; leave it out"):
        fastsvm.load_libsvm(path, n_features=3)


def test_labels_that_are_no_numbers_are_refused(three_classes, path):
    X, y = three_classes
    with pytest.raises(ValueError, match="LIBLINEAR's text has whole numbers"):
        fastsvm.save_libsvm(LinearSVC().fit(X, y.astype(str)), path)
