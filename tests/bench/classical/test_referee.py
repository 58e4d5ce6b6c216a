"""Does the referee of textbook problems tell right answers from wrong ones?"""

import numpy as np
import pytest
from sklearn.svm import SVC as LIBSVM

from bench.classical.referee import Answer, answer_of_all, examine, judge, relative_gap
from fastsvm import SVC


def naive_objectives(parameters, data, answer):
    """Return P and D by the definitions, one sample at a time."""
    X, y, C = data.X, data.y, parameters.C
    K = [[np.exp(-parameters.gamma * ((x - z) ** 2).sum()) for z in X] for x in X]
    b = answer.intercept if answer.has_intercept else 0.0
    f = [sum(beta * k for beta, k in zip(answer.beta, row, strict=True)) for row in K]
    norm = sum(beta * value for beta, value in zip(answer.beta, f, strict=True)) / 2
    missing = [max(0.0, 1 - label * (value + b)) for label, value in zip(y, f, strict=True)]
    dual = sum(label * beta for label, beta in zip(y, answer.beta, strict=True)) - norm
    if parameters.squared:
        return norm + C * sum(s * s for s in missing), dual - sum(beta**2 for beta in answer.beta) / (4 * C)
    return norm + C * sum(missing), dual


@pytest.mark.parametrize("group", ["primal loop", "squared"])
@pytest.mark.parametrize("has_intercept", [False, True])
def test_objectives_are_those_of_a_naive_calculation(group, has_intercept, small):
    (parameters, data), rng = small(group), np.random.default_rng(1)
    answers = [Answer(rng.normal(size=40), 0.3, has_intercept), Answer(np.zeros(40), 0.0, has_intercept)]
    for answer, found in zip(answers, examine(parameters, data, answers), strict=True):
        assert (found.primal, found.dual) == pytest.approx(naive_objectives(parameters, data, answer), rel=1e-10)


@pytest.mark.parametrize(
    ("group", "has_intercept", "given"),
    [
        ("primal loop", True, {}),
        ("primal loop", False, {"solver": "coordinate"}),
        ("squared", True, {"solver": "primal", "loss": "squared_hinge"}),
    ],
)
def test_wrong_answers_are_noticed(group, has_intercept, given, small):
    parameters, data = small(group)
    model = SVC(**parameters.estimator, tol=1e-8, **given).fit(data.X, data.y)
    right = answer_of_all(model, 40, has_intercept)
    half, turned, large = (right._replace(beta=factor * right.beta) for factor in (0.5, -1, 2))
    one = np.argmax(np.abs(right.beta))
    unbalanced = right._replace(beta=np.where(np.arange(40) == one, 0.9 * right.beta, right.beta))
    best, *wrong = examine(parameters, data, [right, half, turned, large, unbalanced])
    gaps = [relative_gap(verdict.primal, verdict.dual) for verdict in wrong]
    assert best.feasible
    assert abs(relative_gap(best.primal, best.dual)) < 1e-6
    assert np.mean(best.signs == data.y_test) > 0.7
    assert all(gap > 1e-3 or not verdict.feasible for gap, verdict in zip(gaps, wrong, strict=True))
    assert wrong[0].feasible
    assert not wrong[1].feasible
    assert wrong[2].feasible == (group == "squared")  # whose multipliers have no upper bound
    assert wrong[3].feasible != has_intercept


def test_dual_of_the_squared_hinge_is_that_of_the_shifted_matrix(small):
    parameters, data = small("squared")
    K, y = parameters.matrix(data.X), data.y
    model = LIBSVM(kernel="precomputed", C=1e9, tol=1e-8).fit(K, y)
    answer = answer_of_all(model, len(y), True)
    (found,), beta = examine(parameters, data, [answer]), answer.beta
    assert found.feasible
    assert abs(relative_gap(found.primal, found.dual)) < 1e-5
    assert found.dual == pytest.approx(y @ beta - beta @ K @ beta / 2, rel=1e-10)


def test_findings_compare_signs_with_the_first_and_predictions_with_the_answer(small):
    parameters, data = small("primal loop")
    model = SVC(**parameters.estimator, tol=1e-8).fit(data.X, data.y)
    right = {**answer_of_all(model, 40, True)._asdict(), "predicted": model.predict(data.X_test)}
    turned = {**right, "beta": -right["beta"], "intercept": -right["intercept"]}
    best, worst = judge(parameters, data, [right, turned], True)
    assert (best["same_signs"], best["agreement"], worst["same_signs"], worst["agreement"]) == (1, 1, 0, 0)
    assert best["accuracy"] == model.score(data.X_test, data.y_test) == 1 - worst["accuracy"]
    assert best["own_gap"] < 1e-6
    assert worst["own_gap"] is None
    unlabelled = data._replace(y_test=data.y_test[:0])
    assert judge(parameters, unlabelled, [right], True)[0]["accuracy"] is None
