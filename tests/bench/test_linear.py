"""Does the benchmark of linear SVMs judge the common objective, and tell who comes near the best and when?"""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from bench import curve_picture, goals  # noqa: E402
from bench.__main__ import main  # noqa: E402
from bench.cases import Case  # noqa: E402
from bench.competitors import OURS  # noqa: E402
from bench.data import Data, save  # noqa: E402
from bench.linear_parameters import LinearParameters  # noqa: E402
from bench.linear_referee import Weights, objectives  # noqa: E402
from bench.outcomes import Options, Result  # noqa: E402
from bench.processes import Crew  # noqa: E402
from bench.suites import SUITES, competitors_of  # noqa: E402
from bench.tables import Finished  # noqa: E402
from bench.workers import ANSWER, Task  # noqa: E402

OPTIONS = Options(repeat=2, timeout=60, threads=2, memory_mb=100, gap=True, quick=True)
NOT_QUITE = dict.fromkeys(("sklearn-sgd", "sklearn-sgd-tuned", "vowpalwabbit"), 1.5)  # times the optimum


def digits(n_classes=4, form=np.asarray):
    rows, labels = load_digits(n_class=n_classes, return_X_y=True)
    rows, labels = rows[::-1] / 16, labels[::-1] + 3  # classes neither in order nor numbered from 0
    return Data(form(rows[:300]), labels[:300], form(rows[300:]), labels[300:])


# --- the objective ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "losses"), [("hinge", 0 + 2), ("squared_hinge", 0 + 4)])
def test_objective_with_a_penalised_offset_is_that_by_hand(loss, losses):
    rows, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5, 4])
    weights = Weights(np.array([[1.5, 0.5]]), np.array([0.5]))  # margins 2 and -1
    (found,) = objectives(rows, labels, LinearParameters(loss, C=3), [weights])
    assert found == pytest.approx(3 * losses + (1.5**2 + 0.5**2 + 0.5**2) / 2, rel=1e-14)


def test_alpha_of_rows_belongs_to_the_same_weights():
    data, weights = digits(), Weights(np.ones((4, 64)), np.zeros(4))
    told = LinearParameters("hinge", C=0.1).of_rows(300)
    of_mean = LinearParameters("hinge", told.alpha)
    (total,), (mean,) = (objectives(data.X, data.y, one, [weights]) for one in (told, of_mean))
    assert total == pytest.approx(mean * 0.1 * 300, rel=1e-12)
    assert of_mean.of_rows(300) is of_mean


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_optimum_of_another_library_is_one(loss):
    data, parameters = digits(), LinearParameters(loss, C=0.1)
    model = LinearSVC(C=0.1, loss=loss, tol=1e-8, max_iter=100_000, random_state=0).fit(data.X, data.y)
    changed = [
        Weights(f * model.coef_, g * model.intercept_) for f, g in ((1, 1), (0.99, 1), (1.01, 1), (1, 0.95), (1, 1.05))
    ]
    found = objectives(data.X, data.y, parameters, changed)
    assert found[0] < min(found[1:])


# --- competitors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("competitor", competitors_of("linear").values(), ids=lambda one: one.name)
def test_competitors_come_near_the_common_optimum(competitor, tmp_path):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    with Crew() as crew:
        for n_classes, form in ((2, np.asarray), (4, np.asarray), (4, sparse.csr_matrix)):
            for loss in competitor.losses:
                data, parameters = digits(n_classes, form), LinearParameters(loss, C=0.1)
                (found,) = judged(crew, competitor, data, parameters, tmp_path / f"{n_classes}{form.__name__}{loss}")
                assert [point["budget"] for point in found["points"]] == list(competitor.budgets)
                best = min(point["objective"] for point in found["points"])
                least = optimum(data, parameters)
                assert (1 - 1e-6) * least < best < NOT_QUITE.get(competitor.name, 1.005) * least
                assert found["accuracy"] > 0.85
                offs = [point["off"] for point in found["points"]]
                assert all(off < 1e-6 for off in offs) if competitor.name == OURS else set(offs) == {None}


def judged(crew, competitor, data, parameters, folder):
    """Return what the referee finds about a competitor's curve."""
    folder.mkdir()
    save(data, folder)
    task = Task(competitor.name, "linear", asdict(parameters), 2, 100, str(folder), 60)
    crew.run("bench.workers.curve", task, folder, {}, "session")
    with np.load(folder / ANSWER) as stored:
        return SUITES["linear"].judge(parameters, data, [dict(stored)], True)


def optimum(data, parameters):
    model = LinearSVC(C=parameters.C, loss=parameters.loss, tol=1e-8, max_iter=100_000, random_state=0)
    model.fit(data.X, data.y)
    return objectives(data.X, data.y, parameters, [Weights(model.coef_, model.intercept_)])[0]


# --- who is near the best, and when -------------------------------------------------------------------------


def result(name, seconds, objectives, status="ok", off=None):
    """Return a result of two runs, of which the second took twice as long."""
    records = [
        {
            "seconds": factor * seconds[-1], "parts": {"warm-up": 0.1}, "peak_mb": 60.0, "added_mb": 10.0,
            "points": [{"budget": k + 1, "seconds": factor * s} for k, s in enumerate(seconds)],
            "chosen": None, "warnings": [],
        }
        for factor in (1, 2)
    ]  # fmt: skip
    points = [{"budget": k + 1, "objective": value, "accuracy": 0.9, "off": off} for k, value in enumerate(objectives)]
    return Result(name, status, records=records, findings=[{**points[-1], "points": points}])


def lines(*results):
    case = Case("case", ("linear",), lambda: None, LinearParameters("hinge", C=1))
    return goals.lines([Finished(case, (10, 2), list(results))], OPTIONS)


def test_time_is_that_of_the_first_fit_that_is_near_enough():
    ours = result(OURS, [1.0, 2.0, 4.0], [5.0, 1.004, 1.0])
    other, never = result("sklearn", [2.0, 5.0, 7.0], [1.006, 1.005, 1.1]), result("snapml", [6.0], [1.006])
    found = goals.compared(other, [ours, other])
    assert found["best"] == 1
    assert found["arrival"] == {"budget": 2, "seconds": 7.5, "objective": 1.005, "accuracy": 0.9}
    assert found["ratio"] == 7.5 / 3
    assert [point["above"] for point in found["curve"]] == pytest.approx([0.006, 0.005, 0.1])
    text = lines(ours, other, never)
    assert text[2].split()[2:6] == ["3.000", "2.000-4.000", "1.00", "2"]
    assert text[3].split()[2:6] == ["7.500", "5.000-10.000", "2.50", "2"]
    assert text[4].split()[2:4] == ["not", "0.9000"]
    assert text[5] == (
        "case, snapml: not within 0.5% of the best objective after 9 s, which is 3 times as long as fastsvm takes"
    )


def test_whoever_is_best_is_the_measure_even_if_it_is_not_ours():
    ours, other = result(OURS, [1.0], [2.0]), result("sklearn", [3.0], [1.0])
    assert goals.compared(other, [ours, other])["ratio"] is None
    assert "case, fastsvm: not within 0.5% of the best objective after 1.5 s" in lines(ours, other)


def test_of_an_ended_curve_the_beginning_counts():
    ours, other = result(OURS, [1.0], [1.0]), result("sklearn", [2.0, 3.0], [9.0, 8.0], status="timeout")
    other.message = "fit with budget 3 took more than 60 s"
    text = "\n".join(lines(ours, other))
    assert "not within 0.5% of the best objective after 60 s, which is 40 times as long" in text
    assert "fit with budget 3 took more than 60 s" in text
    nothing = Result("snapml", "timeout", "warm-up took more than 360 s")
    assert "case, snapml: not within 0.5% of the best" in "\n".join(lines(ours, nothing))
    assert "failed" in "\n".join(lines(ours, Result("snapml", "failed", "Error: 7")))


def test_claims_that_are_wrong_are_noted():
    assert not any("claims" in line for line in lines(result(OURS, [1.0], [1.0], off=1e-7)))
    assert "case, fastsvm: objectives that it claims are off by up to 2.0e-06 of those found" in lines(
        result(OURS, [1.0], [1.0], off=2e-6)
    )


def test_claims_are_compared_with_what_is_found():
    data, parameters = digits(2), LinearParameters("hinge", C=0.1)
    weights = Weights(np.ones((1, 64)), np.zeros(1))
    (true,) = objectives(data.X, data.y, parameters, [weights])
    stored = {"budget": np.array([1, 2]), "coef": np.stack([weights.coef] * 2), "intercept": np.zeros((2, 1))}
    stored["claimed"] = np.array([1.01 * true, np.nan])
    (found,) = SUITES["linear"].judge(parameters, data, [stored], True)
    assert [point["off"] for point in found["points"]] == [pytest.approx(0.01), None]


def test_picture_shows_the_goal_and_those_who_were_ended():
    ours, other = result(OURS, [1.0, 2.0], [2.0, 1.0]), result("sklearn", [2.0], [9.0], status="timeout")
    case = Case("case", ("linear",), lambda: None, LinearParameters("hinge", C=1))
    nobody = Finished(case, (10, 2), [Result(OURS, "timeout", "warm-up took more than 360 s")])
    drawn = SUITES["linear"].view.figure([Finished(case, (10, 2), [ours, other]), nobody], "a fit", 60.0)
    left = drawn.axes[0]
    assert any(set(line.get_ydata()) == {goals.GOAL} for line in left.lines)
    assert [list(line.get_ydata()) for line in left.lines[:2]] == [[1.0, 0.5], [8.0]]
    assert curve_picture.figure([nobody], "a fit", 60.0)


def test_curve_ends_where_a_fit_takes_too_long(tmp_path, capsys, monkeypatch):
    """Whatever the machine: budgets grow a thousandfold until one fit takes more than the time allowed."""
    slow = replace(competitors_of("linear")["sklearn"], budgets=(1, 2, 10**9))
    monkeypatch.setattr("bench.linear_competitors.LINEAR_COMPETITORS", [slow])
    arguments = ["linear", "--quick", "--only", "sklearn", "--timeout", "2", "--out", str(tmp_path)]
    competitors = {"linear": replace(SUITES["linear"], competitors=[slow], worker="tests_slow_curve")}
    monkeypatch.setitem(SUITES, "linear", competitors["linear"])
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "tests_slow_curve.py").write_text(
        "from dataclasses import replace\n"
        "from bench import linear_competitors\n"
        "from bench.workers import curve, serve\n"
        "one = linear_competitors.linear_competitor('linear', 'sklearn')\n"
        "linear_competitors.LINEAR_COMPETITORS[:] = [replace(one, budgets=(1, 2, 10**9))]\n"
        "serve(curve.prepare)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert main(arguments) == 0
    (path,) = tmp_path.glob("*.json")
    (found,) = json.loads(path.read_text())["cases"][0]["results"]
    assert found["status"] == "timeout"
    assert [point["budget"] for point in found["curve"]] == [1, 2]
    assert "digits-linear, sklearn: fit with budget 1e+09 took more than 2 s" in capsys.readouterr().out
