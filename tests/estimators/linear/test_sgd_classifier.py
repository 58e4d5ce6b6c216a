"""SGDClassifier: steps of scikit-learn, classes and their weights, probabilities."""

import numpy as np
import pytest
from linear_svms import assert_same
from sgd_models import BINARY, STEPWISE, made_sgd, objective, plain
from sklearn import linear_model

from fastsvm import SGDClassifier
from fastsvm.losses import loss_names

CLASSIFICATION, REGRESSION = loss_names("labels", "classes"), loss_names("numbers")

SCHEDULES = {"constant": {}, "invscaling": {"power_t": 0.3}, "optimal": {}}


@pytest.mark.parametrize(
    ("loss", "data", "schedule", "fit_intercept"),
    [(loss, data, schedule, (i + j + k) % 2 == 0)
     for i, loss in enumerate(BINARY)
     for j, data in enumerate(["two_300", "three_300"])
     for k, schedule in enumerate(SCHEDULES)],
)  # fmt: skip
def test_batches_of_one_row_are_steps_of_scikit_learn(loss, data, schedule, fit_intercept, request):
    if schedule == "optimal" and loss in ("squared_hinge", "modified_huber"):  # its first rate is another
        return
    X, y = request.getfixturevalue(data)
    parameters = STEPWISE | SCHEDULES[schedule] | {"learning_rate": schedule, "fit_intercept": fit_intercept}
    model = SGDClassifier(loss, **parameters).fit(X, y)
    wanted = linear_model.SGDClassifier(loss, **plain(parameters)).fit(X, y)
    assert_same(model, wanted, 1e-8)
    assert (model.n_iter_, model.t_) == (wanted.n_iter_, wanted.t_)
    np.testing.assert_array_equal(model.predict(X), wanted.predict(X))
    np.testing.assert_allclose(model.decision_function(X), wanted.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
@pytest.mark.parametrize("data", ["two_300", "three_300"])
def test_probabilities_are_those_of_scikit_learn(data, loss, request):
    X, y = request.getfixturevalue(data)
    parameters = STEPWISE | {"learning_rate": "constant"}
    model = SGDClassifier(loss, **parameters).fit(X, y)
    wanted = linear_model.SGDClassifier(loss, **plain(parameters)).fit(X, y)
    far = 5 * X
    np.testing.assert_allclose(model.predict_proba(far), wanted.predict_proba(far), atol=1e-7)


def test_class_weights_are_those_of_scikit_learn(three_300):
    X, y = three_300
    parameters = STEPWISE | {"learning_rate": "constant", "class_weight": {0: 2.0, 2: 0.5}}
    wanted = linear_model.SGDClassifier(**plain(parameters)).fit(X, y)
    assert_same(SGDClassifier(**parameters).fit(X, y), wanted, 1e-8)


def test_the_objective_of_softmax_comes_close_to_that_of_logistic_regression(three_300):
    X, y = three_300
    alpha = 0.01
    exact = linear_model.LogisticRegression(C=1 / (alpha * len(X)), tol=1e-10, max_iter=10_000).fit(X, y)
    wanted = objective("softmax", exact.coef_, exact.intercept_, X, y, alpha)
    model = made_sgd("softmax", alpha=alpha, max_iter=10_000, tol=1e-6).fit(X, y)
    reached = objective("softmax", model.coef_, model.intercept_, X, y, alpha)
    assert model.objective_ == pytest.approx(reached, rel=1e-10)
    assert wanted * (1 - 1e-8) <= model.objective_ <= wanted * 1.003
    np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=0.03)


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_two_classes_have_one_score(loss, two_300):
    X, y = two_300
    model = made_sgd(loss).fit(X, np.array(["no", "yes"])[y])
    assert model.coef_.shape == (1, 5)
    assert model.intercept_.shape == (1,)
    found = model.decision_function(X)
    assert found.shape == (300,)
    np.testing.assert_allclose(found, X @ model.coef_[0] + model.intercept_[0], atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.where(found > 0, "yes", "no"))
    assert model.score(X, np.array(["no", "yes"])[y]) > 0.8


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION])
def test_several_classes_have_a_score_each(loss, three_300):
    X, y = three_300
    model = SGDClassifier(loss, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    assert model.coef_.shape == (3, 5)
    assert model.decision_function(X).shape == (300, 3)
    assert model.score(X, np.array(["a", "b", "c"])[y]) > 0.7


def test_two_classes_by_softmax_are_logistic_regression(two_300):
    X, y = two_300
    alpha = 0.01
    model = made_sgd("softmax", alpha=alpha, max_iter=2000, tol=1e-6, batch_size=None).fit(X, y)
    same = made_sgd("log_loss", alpha=alpha / 2, max_iter=2000, tol=1e-6, batch_size=None).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=2e-3)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="classes has to be greater than one; got 1 class"):
        SGDClassifier().fit([[1.0], [2.0]], [1, 1])
    with pytest.raises(ValueError, match="positive weight"):
        SGDClassifier().fit([[1.0], [2.0]], [0, 1], sample_weight=[1, 0])


def test_a_class_may_have_no_weight(three_300):
    X, y = three_300
    model = made_sgd("hinge").fit(X, y, sample_weight=(y > 0) * 1.0)
    assert model.classes_.tolist() == [1, 2]
    assert model.coef_.shape == (1, 5)


@pytest.mark.parametrize("data", ["two_300", "three_300"])
@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
def test_balanced_classes(loss, data, request):
    X, y = request.getfixturevalue(data)
    kept = np.flatnonzero((y > 0) | (np.arange(300) % 4 == 0))
    X, y = X[kept], y[kept]
    count = np.bincount(y)
    factors = dict(enumerate(len(y) / (len(count) * count)))
    parameters = {"max_iter": 5, "tol": None}
    balanced = made_sgd(loss, class_weight="balanced", **parameters).fit(X, y)
    assert_same(balanced, made_sgd(loss, class_weight=factors, **parameters).fit(X, y), 1e-13)
    plain = made_sgd(loss, **parameters).fit(X, y)
    assert np.mean(balanced.predict(X) == 0) > np.mean(plain.predict(X) == 0)
    if loss == "softmax" or data == "two_300":
        weight = np.array(list(factors.values()))[y]
        assert_same(
            balanced, made_sgd(loss, **parameters).fit(X, y, sample_weight=weight * len(y) / weight.sum()), 1e-13
        )


@pytest.mark.parametrize("loss", ["log_loss", "modified_huber", "softmax"])
@pytest.mark.parametrize("data", ["two_300", "three_300"])
def test_probabilities_sum_to_one(data, loss, request):
    X, y = request.getfixturevalue(data)
    model = made_sgd(loss).fit(X, y)
    for rows in (X, 1e4 * X):
        found = model.predict_proba(rows)
        assert found.shape == (300, y.max() + 1)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(model.predict_log_proba(rows), np.log(found))
    if loss != "modified_huber":
        np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "perceptron", "weston_watkins", "crammer_singer"])
def test_margins_have_no_probabilities(loss, two_300):
    model = made_sgd(loss).fit(*two_300)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")


@pytest.mark.parametrize("data", ["two_300", "three_300"])
def test_soft_decisions_are_scores_cut_off(data, request):
    X, y = request.getfixturevalue(data)
    model = made_sgd("hinge").fit(X, y)
    found, soft = model.decision_function(X), model.soft_decision(X)
    assert np.abs(found).max() > 1 > np.abs(found).min()
    np.testing.assert_array_equal(soft, np.clip(found, -1, 1))


@pytest.mark.parametrize("parameters", [
    {"margin": 0}, {"margin": -1.0}, {"class_weight": "even"}, {"class_weight": {5: 1.0}}, {"class_weight": {0: -1}},
    {"alpha": 0, "learning_rate": "optimal"}, {"alpha": 0, "learning_rate": "pegasos"},
])  # fmt: skip
def test_bad_parameters_of_classifiers_are_named(parameters, two_300):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SGDClassifier(**parameters).fit(*two_300)
