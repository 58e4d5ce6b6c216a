"""Does the table say what was measured, and which bound is wrong?"""

import json

import pytest

from bench.__main__ import main
from bench.harness.competitor import OURS
from bench.harness.outcomes import Result
from bench.harness.suite import Case, Finished
from bench.millions.parameters import MillionsParameters
from bench.millions.table import compared, failures, lines


def _result(name, accuracies, exact=None, **told):
    points = [{"budget": 10 * (k + 1), "seconds": k + 1.0, "peak_mb": 100.0 * (k + 1)} for k in range(len(accuracies))]
    record = {"seconds": 3.0, "points": points, "warnings": [], "parts": {}}
    found = [{"accuracy": accuracy, "objective": None, **told} for accuracy in accuracies]
    return Result(name, records=[record], findings=[{"exact": exact, "points": found}])


@pytest.fixture
def finished():
    case = Case("case", ("millions",), lambda: None, MillionsParameters(1.0, 1.0))
    return lambda *results: Finished(case, (100, 3), list(results))


def test_others_are_compared_with_our_first_fit_that_is_as_accurate(finished, options):
    ours, other = _result(OURS, [0.8, 0.9]), _result("other", [0.7, 0.85, 0.95])
    both = finished(ours, other)
    assert [point["ours_there_s"] for point in compared(other, both)["curve"]] == [1.0, 2.0, None]
    rows = [line.split() for line in lines([both], options)[2:]]
    assert [row[-1] for row in rows if row[1] == "other"] == ["1.00", "2.00", "not"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"lower": 0.9, "upper": 1.3, "objective": 1.3}, []),
        ({"lower": 0.9, "upper": 1.3, "objective": 1.4}, ["claims"]),
        ({"lower": 1.2, "upper": 1.3, "objective": None}, ["above the minimum"]),
        ({"lower": 0.8, "upper": 0.9, "objective": None}, ["below the minimum"]),
    ],
)
def test_bounds_that_are_wrong_are_failures(finished, told, words):
    found = failures(finished(_result(OURS, [0.8], (1.0, 1.1), **told)))
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_the_quick_case_is_fitted_judged_drawn_and_saved(command_in_process, tmp_path, capsys):
    names = [OURS, "fastsvm SVC", "sklearn Nystroem", "sklearn RBFSampler SGD"]
    only = [word for name in names for word in ("--only", name)]
    assert main(["millions", "--quick", "--out", str(tmp_path), *only]) == 0
    (path,) = tmp_path.glob("*.json")
    assert path.with_suffix(".png").stat().st_size > 1000
    (case,) = json.loads(path.read_text())["cases"]
    found = {one["competitor"]: one for one in case["results"]}
    assert list(found) == names
    own = found[OURS]["curve"]
    assert [point["budget"] for point in own] == [32, 128]
    exact = found[OURS]["findings"][0]["exact"]
    for point in own:
        assert point["told"]["lower"] <= exact[1]
        assert point["told"]["upper"] >= exact[0]
        assert point["told"]["objective"] == pytest.approx(point["told"]["upper"], rel=1e-5)
    assert found["fastsvm SVC"]["curve"][-1]["accuracy"] > 0.95
    assert "bounds of the exact optimum" in capsys.readouterr().out
