"""Does the benchmark of gradient descent judge weights rightly, and compare curves as it says?"""

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from bench import curve_picture, curves, linear_referee  # noqa: E402
from bench.__main__ import main  # noqa: E402
from bench.cases import Case  # noqa: E402
from bench.competitors import OURS  # noqa: E402
from bench.data import Data, save  # noqa: E402
from bench.linear_parameters import LinearParameters  # noqa: E402
from bench.linear_referee import LOSSES, LOSSES_OF_CLASSES, Weights, examine_all, objectives, refusal  # noqa: E402
from bench.outcomes import Options, Result  # noqa: E402
from bench.processes import Crew  # noqa: E402
from bench.suites import SUITES, competitors_of  # noqa: E402
from bench.tables import Finished  # noqa: E402
from bench.workers import ANSWER, Task  # noqa: E402

OPTIONS = Options(repeat=2, timeout=60, threads=2, memory_mb=100, gap=True, quick=True)
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


# --- the referee --------------------------------------------------------------------------------------------


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


# --- curves -------------------------------------------------------------------------------------------------


def result(name, seconds, objectives, status="ok"):
    """Return a result of two runs, of which the second took twice as long."""
    records = [
        {
            "seconds": factor * seconds[-1], "parts": {"warm-up": 0.1}, "peak_mb": 60.0, "added_mb": 10.0,
            "points": [{"budget": k + 1, "seconds": factor * s} for k, s in enumerate(seconds)],
            "chosen": None, "warnings": [],
        }
        for factor in (1, 2)
    ]  # fmt: skip
    points = [{"budget": k + 1, "objective": value, "accuracy": 0.9, "off": None} for k, value in enumerate(objectives)]
    return Result(name, status, records=records, findings=[{**points[-1], "points": points}])


def case():
    return Case("case", ("sgd",), lambda: None, LinearParameters("hinge", 1e-4))


def test_ours_is_compared_at_the_first_point_that_is_as_good():
    ours = result(OURS, [1.0, 2.0, 4.0], [0.5, 0.3, 0.2])
    other, better = result("sklearn", [3.0, 5.0, 6.0], [0.9, 0.4, 0.3]), result("numpy", [1.0], [0.1])
    found = curves.compared(other, [ours, other])
    assert found["reached"] == {"budget": 2, "seconds": 3.0, "objective": 0.3, "accuracy": 0.9}
    assert found["ratio"] == 3
    assert [point["seconds"] for point in found["curve"]] == [4.5, 7.5, 9.0]
    assert curves.compared(better, [ours, better])["reached"] is None
    text = "\n".join(curves.lines([Finished(case(), (10, 2), [ours, other, better])], OPTIONS))
    assert "not in its epochs" in text
    assert "3.000   3.00" in text


def test_curves_of_those_who_did_not_finish_are_left_out():
    ours, failed = result(OURS, [1.0], [0.5]), Result("sklearn", "timeout", "fit with budget 20 took more than 60 s")
    finished = [Finished(case(), (10, 2), [ours, failed])]
    assert curves.compared(failed, [ours, failed]) == {"curve": [], "reached": None, "ratio": None}
    text = "\n".join(curves.lines(finished, OPTIONS))
    assert "> 60" in text
    assert "case, sklearn: fit with budget 20 took more" in text
    assert curve_picture.figure(finished, "a fit", 60.0)


def test_who_has_not_the_loss_is_skipped_with_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FASTSVM_DATA", raising=False)
    assert main(["sgd", "--case", "mnist-sgd-softmax", "--only", "sklearn", "--out", str(tmp_path)]) == 0
    assert "mnist-sgd-softmax, sklearn is skipped: it has no loss 'softmax'" in capsys.readouterr().out


# --- competitors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("competitor", competitors_of("sgd").values(), ids=lambda one: one.name)
def test_weights_of_competitors_predict(competitor, tmp_path):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    with Crew() as crew:
        for n_classes, form in ((2, np.asarray), (2, sparse.csr_matrix), (4, np.asarray), (4, sparse.csr_matrix)):
            for loss in {"hinge", "softmax"} & set(competitor.losses):
                folder = tmp_path / f"{n_classes}-{form.__name__}-{loss}"
                folder.mkdir()
                rows, labels = load_digits(n_class=n_classes, return_X_y=True)
                rows, labels = rows[::-1] / 16, labels[::-1] + 3  # classes neither in order nor numbered from 0
                data = Data(form(rows[:300]), labels[:300], form(rows[300:]), labels[300:])
                save(data, folder)
                parameters = LinearParameters(loss, 1e-3)
                task = Task(competitor.name, "sgd", asdict(parameters), 2, 100, str(folder), 60)
                crew.run("bench.workers.curve", task, folder, {}, "session")
                with np.load(folder / ANSWER) as stored:
                    (found,) = SUITES["sgd"].judge(parameters, data, [dict(stored)], True)
                assert [point["budget"] for point in found["points"]] == [1, 2, 5, 10, 20]
                assert found["accuracy"] > 0.85
                assert found["objective"] < n_classes / 4
