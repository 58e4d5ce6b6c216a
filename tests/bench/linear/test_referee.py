"""Does the referee of linear models judge weights rightly?"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from bench.harness.data import Data
from bench.linear import referee as linear_referee
from bench.linear.parameters import LinearParameters
from bench.linear.referee import LOSSES, LOSSES_OF_CLASSES, Weights, examine_all, judge, objectives, refusal

ALL_LOSSES = [*LOSSES, *LOSSES_OF_CLASSES]


def naive_objective(data, loss, alpha, weights):
    """Return the objective by the definitions, one row and one class at a time; two classes have two scores or one."""
    classes = np.unique(data.y).tolist()
    total = 0.0
    for x, label in zip(data.X, data.y, strict=True):
        scores = [float(w @ x + b) for w, b in zip(*weights, strict=True)]
        right = classes.index(label)
        if loss in LOSSES:
            of_score = {1: [1]}.get(len(scores), range(len(scores)))
            margins = [s if c == right else -s for c, s in zip(of_score, scores, strict=True)]
            values = {
                "hinge": [max(0, 1 - m) for m in margins],
                "squared_hinge": [max(0, 1 - m) ** 2 for m in margins],
                "log_loss": [np.log(1 + np.exp(-m)) for m in margins],
            }[loss]
            total += sum(values)
            continue
        excess = [max(0, s - scores[right] + 1) for c, s in enumerate(scores) if c != right]
        shares = np.exp(scores) / np.exp(scores).sum()
        total += {
            "weston_watkins": sum(excess), "crammer_singer": max(excess), "softmax": -np.log(shares[right])
        }[loss]  # fmt: skip
    return total / len(data.y) + alpha / 2 * sum(float(w @ w) for w in weights.coef)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # The margins are (2; -1), of two rows with the scores 2 and 1 and the labels +1 and -1: losses 0 and 2.
        ("hinge", (0 + 2) / 2),
        ("squared_hinge", (0 + 4) / 2),
        ("log_loss", (np.log(1 + np.exp(-2)) + np.log(1 + np.exp(1))) / 2),
        # The scores of the classes are (-1, 1) and (-1/2, 1/2).
        ("weston_watkins", (0 + 2) / 2),
        ("crammer_singer", (0 + 2) / 2),
        ("softmax", (np.log(1 + np.exp(-2)) + np.log(1 + np.exp(1))) / 2),
    ],
)
def test_objective_of_two_classes_is_that_by_hand(loss, expected):
    rows, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5, 4])
    weights = Weights(np.array([[1.5, 0.5]]), np.array([0.5]))
    square = 1.5**2 + 0.5**2
    if loss in LOSSES_OF_CLASSES:
        square /= 2  # of two opposite halves
    (found,) = objectives(rows, labels, LinearParameters(loss, 0.2), [weights])
    assert found == pytest.approx(expected + 0.1 * square, rel=1e-14)


def test_objective_of_three_classes_is_that_by_hand():
    rows, labels = np.eye(3), np.array([0, 1, 2])
    # Scores: (2, 0, -1), (0, 0.5, 0), (3, -2, 2).
    weights = Weights(np.array([[2, 0, 3], [0, 0.5, -2], [-1, 0, 2.0]]), np.zeros(3))
    penalty = 0.5 / 2 * (4 + 9 + 0.25 + 4 + 1 + 4)
    by_hand = {
        "hinge": (0 + 1 + 0 + 1 + 0.5 + 1 + 4 + 0 + 0) / 3,
        "weston_watkins": (0 + 0.5 + 0.5 + 2) / 3,
        "crammer_singer": (0 + 0.5 + 2) / 3,
        "softmax": np.mean([
            np.log(np.exp(2) + 1 + np.exp(-1)) - 2,
            np.log(2 + np.exp(0.5)) - 0.5,
            np.log(np.exp(3) + np.exp(-2) + np.exp(2)) - 2,
        ]),
    }  # fmt: skip
    for loss, expected in by_hand.items():
        (found,) = objectives(rows, labels, LinearParameters(loss, 0.5), [weights])
        assert found == pytest.approx(expected + penalty, rel=1e-14), loss


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, np.float32])
@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_several_answers_are_judged_as_by_the_definition(loss, form, monkeypatch):
    monkeypatch.setattr(linear_referee, "_ROWS", 7)
    rng = np.random.default_rng(0)
    rows = rng.integers(-3, 4, (30, 5)).astype(np.float64)
    labels = rng.choice([3, 7, 8], 30)
    answers = [Weights(rng.normal(size=(3, 5)), rng.normal(size=3)) for _ in range(3)]
    data = Data(rows, labels, rows[:4], labels[:4])
    given = data._replace(X=form(rows), X_test=form(rows[:4]))
    found = examine_all(given, LinearParameters(loss, 0.3), answers)
    for one, weights in zip(found, answers, strict=True):
        assert one.objective == pytest.approx(naive_objective(data, loss, 0.3, weights), rel=1e-12)
        best = [max(range(3), key=lambda c: weights.coef[c] @ x + weights.intercept[c]) for x in rows[:4]]
        assert one.predicted.tolist() == [[3, 7, 8][c] for c in best]


def test_two_classes_are_predicted_by_the_sign():
    rows, labels = np.array([[1.0], [-1.0]]), np.array(["no", "yes"])
    weights = Weights(np.array([[2.0]]), np.array([0.5]))
    (found,) = examine_all(Data(rows, labels, rows, labels), LinearParameters("hinge"), [weights])
    assert found.predicted.tolist() == ["yes", "no"]


def test_optimum_of_another_library_is_one():
    rows, labels = load_digits(n_class=4, return_X_y=True)
    rows, alpha = rows / 16, 1e-2
    model = LogisticRegression(C=1 / (alpha * len(labels)), tol=1e-6, max_iter=1000).fit(rows, labels)
    changed = [Weights(model.coef_ * factor, model.intercept_) for factor in (1, 0.99, 1.01)]
    found = objectives(rows, labels, LinearParameters("softmax", alpha), changed)
    assert found[0] < min(found[1:])


@pytest.mark.parametrize(
    ("coef", "intercept", "why"),
    [
        (np.zeros((3, 4)), np.zeros(3), "shapes"),
        (np.zeros((1, 5)), np.zeros(1), "shapes"),
        (np.zeros((3, 5)), np.zeros(1), "shapes"),
        (np.full((3, 5), np.nan), np.zeros(3), "finite"),
        (np.zeros((3, 5)), np.full(3, np.inf), "finite"),
    ],
)
def test_weights_of_another_layout_are_refused(coef, intercept, why):
    labels = np.arange(3)
    assert why in refusal(labels, "hinge", 5, Weights(coef, intercept))
    assert refusal(labels, "hinge", 5, Weights(np.zeros((3, 5)), np.zeros(3))) is None


def test_two_rows_of_weights_for_two_classes_are_for_losses_of_classes_only():
    weights = Weights(np.zeros((2, 5)), np.zeros(2))
    assert refusal(np.arange(2), "softmax", 5, weights) is None
    assert "shapes" in refusal(np.arange(2), "hinge", 5, weights)


@pytest.mark.parametrize(("loss", "losses"), [("hinge", 0 + 2), ("squared_hinge", 0 + 4)])
def test_objective_with_a_penalised_offset_is_that_by_hand(loss, losses):
    rows, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5, 4])
    weights = Weights(np.array([[1.5, 0.5]]), np.array([0.5]))  # margins 2 and -1
    (found,) = objectives(rows, labels, LinearParameters(loss, C=3), [weights])
    assert found == pytest.approx(3 * losses + (1.5**2 + 0.5**2 + 0.5**2) / 2, rel=1e-14)


def test_alpha_of_rows_belongs_to_the_same_weights(reversed_digits):
    data, weights = reversed_digits(4, np.asarray), Weights(np.ones((4, 64)), np.zeros(4))
    told = LinearParameters("hinge", C=0.1).of_rows(300)
    of_mean = LinearParameters("hinge", told.alpha)
    (total,), (mean,) = (objectives(data.X, data.y, one, [weights]) for one in (told, of_mean))
    assert total == pytest.approx(mean * 0.1 * 300, rel=1e-12)
    assert of_mean.of_rows(300) is of_mean


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_optimum_of_liblinear_is_one(loss, reversed_digits):
    data, parameters = reversed_digits(4, np.asarray), LinearParameters(loss, C=0.1)
    model = LinearSVC(C=0.1, loss=loss, tol=1e-8, max_iter=100_000, random_state=0).fit(data.X, data.y)
    changed = [
        Weights(f * model.coef_, g * model.intercept_) for f, g in ((1, 1), (0.99, 1), (1.01, 1), (1, 0.95), (1, 1.05))
    ]
    found = objectives(data.X, data.y, parameters, changed)
    assert found[0] < min(found[1:])


def test_claims_are_compared_with_what_is_found(reversed_digits):
    data, parameters = reversed_digits(2, np.asarray), LinearParameters("hinge", C=0.1)
    weights = Weights(np.ones((1, 64)), np.zeros(1))
    (true,) = objectives(data.X, data.y, parameters, [weights])
    stored = {"budget": np.array([1, 2]), "coef": np.stack([weights.coef] * 2), "intercept": np.zeros((2, 1))}
    stored["claimed"] = np.array([1.01 * true, np.nan])
    (found,) = judge(parameters, data, [stored], True)
    assert [point["off"] for point in found["points"]] == [pytest.approx(0.01), None]


def test_objective_with_an_l1_penalty_is_that_by_hand():
    rows, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5, 4])
    weights = Weights(np.array([[1.5, -2.0]]), np.array([0.5]))  # margins 2 and 1.5
    (found,) = objectives(rows, labels, LinearParameters("log_loss", C=3, penalty="l1"), [weights])
    assert found == pytest.approx(3 * (np.log1p(np.exp(-2)) + np.log1p(np.exp(-1.5))) + 4, rel=1e-14)


def test_one_class_is_judged_by_the_offset_and_the_share_of_inliers():
    X, y = np.array([[1.0], [2.0], [4.0]]), np.zeros(3)
    stored = {"budget": np.ones(1), "coef": np.full((1, 1, 1), 0.5), "intercept": np.full((1, 1), -0.75)}
    (found,) = judge(LinearParameters("outlier", nu=0.5), Data(X, y, X, y), [stored | {"claimed": np.ones(1)}], False)
    assert found["objective"] == pytest.approx(0.125 - 0.5 * 3 * 0.75 + 0.25, rel=1e-14)
    assert found["accuracy"] == pytest.approx(2 / 3)


def test_real_targets_are_judged_by_half_squares_and_r2():
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    stored = {"budget": np.ones(1), "coef": np.ones((1, 1, 1)), "intercept": np.zeros((1, 1)), "claimed": np.ones(1)}
    (found,) = judge(LinearParameters("squared_error", 0.5), Data(X, y, X, y), [stored], gap=False)
    assert found["objective"] == pytest.approx(0.5 / 3 + 0.25)
    assert found["accuracy"] == pytest.approx(1 - 1 / (14 / 3))
    two = Weights(np.ones((2, 1)), np.zeros(2))
    assert "shapes" in refusal(y, "squared_error", 1, two)
