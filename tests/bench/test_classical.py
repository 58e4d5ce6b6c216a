"""Does the benchmark of the textbooks' methods judge rightly, time what it says, and show what goes wrong?"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from bench.classical import problems, runs, table  # noqa: E402
from bench.classical.__main__ import main  # noqa: E402
from bench.classical.cases import CASES, GROUPS, Case  # noqa: E402
from bench.classical.competitors import Competitor, libsvm, ours  # noqa: E402
from bench.classical.judge import Solved, judge, solved  # noqa: E402
from bench.classical.loops import DualLoop, PrimalLoop, Recipe, gaussian, quadratic  # noqa: E402
from bench.data import Data  # noqa: E402
from bench.outcomes import Result  # noqa: E402

FINDING = {
    "primal": 2.0, "dual": 2.0, "violation": 0.0, "accuracy": 0.9, "feasible": True, "own_gap": 1e-5, "gap": 1e-5,
    "same_signs": 1.0,
}  # fmt: skip
CASE = Case("group", "case", lambda: None, lambda problem: [])


def small(squared=False, n=40):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n + 10, 3)), np.where(rng.random(n + 10) < 0.4, 1, -1)
    X[:, 0] += y
    return problems.Problem(Data(X[:n], y[:n], X[n:], y[n:]), C=0.7, gamma=0.5, squared=squared)


def result(name="who", seconds=1.0, reached_s=None, **finding):
    record = {
        "seconds": seconds, "warnings": [], "claimed": {"duality_gap_": 2e-5}, "agreement": 1.0,
        "reached_s": reached_s,
    }  # fmt: skip
    return Result(name, records=[record], findings=[FINDING | finding])


def failed(one, *results, **given):
    others = [Competitor(each.competitor, lambda: None) for each in results]
    competitors = [Competitor(one.competitor, lambda: None, **given), *others]
    return "\n".join(table.failures(CASE, competitors, [one, *results]))


def naive_objectives(problem, answer):
    """Return P and D by the definitions, one row at a time."""
    X, y, C = problem.data.X, problem.data.y, problem.C
    K = [[np.exp(-problem.gamma * ((x - z) ** 2).sum()) for z in X] for x in X]
    b = answer.intercept if answer.offset else 0.0
    f = [sum(beta * k for beta, k in zip(answer.beta, row, strict=True)) for row in K]
    norm = sum(beta * value for beta, value in zip(answer.beta, f, strict=True)) / 2
    missing = [max(0.0, 1 - label * (value + b)) for label, value in zip(y, f, strict=True)]
    dual = sum(label * beta for label, beta in zip(y, answer.beta, strict=True)) - norm
    if problem.squared:
        return norm + C * sum(s * s for s in missing), dual - sum(beta**2 for beta in answer.beta) / (4 * C)
    return norm + C * sum(missing), dual


# --- the whole ----------------------------------------------------------------------------------------------


def test_quick_cases_run_and_are_saved(tmp_path):
    command = [sys.executable, "-m", "bench.classical", "--quick", "--repeat", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    (path,) = tmp_path.glob("classical-*.json")
    content = json.loads(path.read_text())
    assert {"machine", "date", "options"} <= set(content)
    assert [one["name"] for one in content["cases"]] == [case.name for case in CASES if case.quick]
    assert {one["group"] for one in content["cases"]} == set(GROUPS)
    assert content["failed"] == content["skipped"] == []
    for case in content["cases"]:
        assert len(case["results"]) > 1
        for one in case["results"]:
            check_result(case, one)
            assert f"| {case['name']} | {one['competitor']} | {one['median_s']:.4f} |" in done.stdout


def check_result(case, one):
    assert one["status"] == "ok"
    assert one["median_s"] > 0
    assert one["ratio"] == one["median_s"] / case["results"][0]["median_s"]
    for finding in one["findings"]:
        assert finding["gap"] >= -1e-9
        assert finding["primal"] > 0
        assert (finding["accuracy"] is None) == (case["group"] == "loops")
        assert finding["same_signs"] > 0.9
    if one is case["results"][0] and case["group"] == "loops":
        assert 0 < one["reached_s"] <= one["median_s"]
        loop = next(each for each in case["results"] if each["competitor"] == "numpy loop")
        assert loop["ratio_to_goal"] == loop["median_s"] / one["reached_s"]


def test_names_choose_groups_and_cases(tmp_path, capsys):
    assert main(["moons-400-primal", "--repeat", "1", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*.json")
    assert [one["name"] for one in json.loads(path.read_text())["cases"]] == ["moons-400-primal"]
    assert main(["nothing"]) == 2
    assert "unknown 'nothing'" in capsys.readouterr().err


def test_missing_data_are_skipped_with_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FASTSVM_DATA", raising=False)
    assert main(["a9a-C1", "--out", str(tmp_path)]) == 0
    assert "a9a-C1 is skipped: FASTSVM_DATA names no folder" in capsys.readouterr().out


# --- the judge ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("offset", [False, True])
def test_objectives_are_those_of_a_naive_calculation(squared, offset):
    problem, rng = small(squared), np.random.default_rng(1)
    answers = [Solved(rng.normal(size=40), 0.3, offset), Solved(np.zeros(40), 0.0, offset)]
    for answer, found in zip(answers, judge(problem, answers), strict=True):
        assert (found.primal, found.dual) == pytest.approx(naive_objectives(problem, answer), rel=1e-10)


@pytest.mark.parametrize(
    ("squared", "offset", "given"),
    [
        (False, True, {}),
        (False, False, {"solver": "coordinate"}),
        (True, True, {"solver": "primal", "loss": "squared_hinge"}),
    ],
)
def test_wrong_answers_are_noticed(squared, offset, given):
    problem = small(squared)
    model = ours(problem, tol=1e-8, **given)().fit(problem.data.X, problem.data.y)
    right = solved(model, 40, offset)
    half, turned, large = (right._replace(beta=factor * right.beta) for factor in (0.5, -1, 2))
    one = np.argmax(np.abs(right.beta))
    unbalanced = right._replace(beta=np.where(np.arange(40) == one, 0.9 * right.beta, right.beta))
    best, *wrong = judge(problem, [right, half, turned, large, unbalanced])
    assert best.feasible
    assert abs(best.gap) < 1e-6
    assert best.accuracy == np.mean(best.signs == problem.data.y_test) > 0.7
    assert all(other.gap > 1e-3 or not other.feasible for other in wrong)
    assert wrong[0].feasible
    assert not wrong[1].feasible
    assert wrong[2].feasible == squared  # whose multipliers have no upper bound
    assert wrong[3].feasible != offset


def test_dual_of_the_squared_hinge_is_that_of_the_shifted_matrix():
    problem = small(squared=True)
    K, y = problem.matrix(), problem.data.y
    model = libsvm(problem, kernel="precomputed", C=1e9, tol=1e-8)().fit(K, y)
    answer = solved(model, len(y), offset=True)
    (found,), beta = judge(problem, [answer]), answer.beta
    assert found.feasible
    assert abs(found.gap) < 1e-5
    assert found.dual == pytest.approx(y @ beta - beta @ K @ beta / 2, rel=1e-10)


# --- the loops ----------------------------------------------------------------------------------------------


def test_loops_record_the_objectives_of_their_problems():
    problem = small()
    X, y = problem.data.X, problem.data.y
    for kind in (DualLoop, PrimalLoop):
        model = kind(gaussian(problem.gamma**-0.5), Recipe(0.01, 50, problem.C)).fit(X, y)
        (found,) = judge(problem, [Solved(model.dual_coef_[0], float(model.intercept_[0]), kind is PrimalLoop)])
        assert len(model.losses_) == 50
        assert model.losses_[-1] == pytest.approx(found.dual if kind is DualLoop else found.primal, rel=1e-9)


def test_dual_loop_ends_where_exact_steps_do():
    problem = small()
    X, y = problem.data.X, problem.data.y
    exact = ours(problem, solver="coordinate", tol=1e-9)().fit(X, y)
    loop = DualLoop(gaussian(problem.gamma**-0.5), Recipe(0.05, 20_000, problem.C, recorded=False)).fit(X, y)
    wanted = solved(exact, len(y), offset=False).beta
    np.testing.assert_allclose(loop.dual_coef_[0], wanted, atol=1e-4)
    np.testing.assert_allclose(loop.intercept_, exact.intercept_, atol=1e-3)
    assert loop.losses_ == []


def test_kernels_of_the_loops_are_those_of_the_problems():
    for problem, kernel in ((problems.moons(20, 0.7), gaussian(0.7)), (problems.donut(), quadratic)):
        np.testing.assert_allclose(kernel(problem.data.X, problem.data.X), problem.matrix(), rtol=1e-9, atol=1e-12)


# --- times to a goal ----------------------------------------------------------------------------------------


def test_time_to_a_goal_counts_what_was_not_recorded():
    record = {"seconds": 5.0, "curve": {"time": [1.0, 2.0, 4.0], "objective": [9.0, 10.0, 11.0]}}
    assert runs.reached(record, -1, goal=-10.0, end=-11.0) == 3.0
    assert runs.reached(record, -1, goal=-11.0 - 1e-9, end=-11.0) == 5.0
    assert runs.reached(record, -1, goal=-12.0, end=-11.0) is None
    assert runs.reached(record, 1, goal=9.5, end=9.4) == 2.0
    assert runs.reached({**record, "curve": {"time": [1.0], "objective": [8.0]}}, -1, goal=-9.0, end=-9.0) == 5.0


def test_ratio_is_to_the_time_to_the_goal_if_there_is_one():
    first, other = result(seconds=4.0, reached_s=2.0), result("loop", seconds=10.0)
    assert table.compared(other, [first, other]) == {"reached_s": None, "ratio": 2.5, "ratio_to_goal": 5.0}
    assert table.compared(first, [first, other])["ratio"] == 1
    competitors = [Competitor("who", lambda: None), Competitor("loop", lambda: None, certified=False)]
    own, row = (line.split(" | ") for line in table.rows(CASE, competitors, [first, other]))
    assert row[2:6] == ["10.0000", "10.0000-10.0000", "", "5.00"]
    assert (own[8], row[8]) == ("1.0e-05", "")  # what the loop claimed would be of another problem


# --- what failed --------------------------------------------------------------------------------------------


def test_what_goes_wrong_is_told():
    assert failed(result(), result("other")) == ""
    assert "constraints of the dual problem are violated by 1.0e-02" in failed(result(feasible=False, violation=0.01))
    assert failed(result(feasible=False, violation=0.01), feasible=False) == ""
    assert "below a lower bound, by 1.0e-02" in failed(result(gap=-0.01))
    assert "the gap is 5.00e-03, allowed are 0.001" in failed(result(gap=5e-3), most_gap=1e-3)
    assert "the gap is unknown" in failed(result(gap=None), most_gap=1e-3)
    assert "it claims a gap of 1.00e-05, found are 5.00e-03" in failed(result(own_gap=5e-3))
    assert failed(result(own_gap=5e-3), certified=False) == ""
    assert "the objective of loop was not reached" in failed(result(), goal="loop")


def test_signs_must_agree_of_those_who_are_close_only():
    assert "only 90.00% of the signs" in failed(result(), result("other", same_signs=0.9))
    assert failed(result(), result("other", gap=0.1, same_signs=0.9)) == ""


def test_warnings_predictions_and_exceptions_are_told():
    one = result()
    one.records[0].update(warnings=["did not converge"], agreement=0.5)
    assert "did not converge" in failed(one)
    assert "did not converge" not in failed(one, stops=False)
    assert "its predictions are not those of its own coefficients" in failed(one)
    problem = small()
    broken = [Competitor("right", ours(problem)), Competitor("broken", ours(problem, C=-1.0))]
    case = Case("group", "case", lambda: problem, lambda given: broken)
    _, competitors, results = runs.run_case(case, 1)
    assert [one.status for one in results] == ["ok", "failed"]
    (line,) = table.failures(case, competitors, results)
    assert line.startswith("case, broken: ValueError: ")
    assert "| case | broken | failed |" in table.rows(case, competitors, results)[1]
