"""Who comes near the best objective, and when?"""

import json
import os
from dataclasses import replace

import pytest

from bench.__main__ import main
from bench.harness.competitor import OURS
from bench.harness.outcomes import Result
from bench.harness.suite import Case, Finished
from bench.linear import goals, picture
from bench.linear.parameters import LinearParameters
from bench.suites import SUITES


def case():
    return Case("case", ("linear",), lambda: None, LinearParameters("hinge", C=1))


@pytest.fixture
def lines(options):
    return lambda *results: goals.lines([Finished(case(), (10, 2), list(results))], options)


def test_time_is_that_of_the_first_fit_that_is_near_enough(curve_result, lines):
    ours = curve_result(OURS, [1.0, 2.0, 4.0], [5.0, 1.004, 1.0])
    other, never = curve_result("sklearn", [2.0, 5.0, 7.0], [1.006, 1.005, 1.1]), curve_result("snapml", [6.0], [1.006])
    found = goals.compared(other, Finished(case(), (10, 2), [ours, other]))
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


def test_whoever_is_best_is_the_measure_even_if_it_is_not_ours(curve_result, lines):
    ours, other = curve_result(OURS, [1.0], [2.0]), curve_result("sklearn", [3.0], [1.0])
    assert goals.compared(other, Finished(case(), (10, 2), [ours, other]))["ratio"] is None
    assert "case, fastsvm: not within 0.5% of the best objective after 1.5 s" in lines(ours, other)


def test_a_tighter_goal_is_one_of_objectives_below_zero_too(curve_result, options):
    ours, other = curve_result(OURS, [1.0, 2.0], [-4.0, -5.0]), curve_result("liblinear", [1.0, 3.0], [-4.9, -5.000001])
    everyone = Finished(case(), (10, 2), [ours, other])
    assert goals.compared(ours, everyone, goals.SAME)["arrival"]["budget"] == 2
    assert goals.compared(other, everyone, goals.SAME)["ratio"] == 1.5
    assert "to 1e-06 s" in goals.lines([everyone], options, goals.SAME)[0]


def test_of_an_ended_curve_the_beginning_counts(curve_result, lines):
    ours, other = curve_result(OURS, [1.0], [1.0]), curve_result("sklearn", [2.0, 3.0], [9.0, 8.0], status="timeout")
    other.message = "fit with budget 3 took more than 60 s"
    text = "\n".join(lines(ours, other))
    assert "not within 0.5% of the best objective after 60 s, which is 40 times as long" in text
    assert "fit with budget 3 took more than 60 s" in text
    nothing = Result("snapml", "timeout", "warm-up took more than 360 s")
    assert "case, snapml: not within 0.5% of the best" in "\n".join(lines(ours, nothing))
    assert "failed" in "\n".join(lines(ours, Result("snapml", "failed", "Error: 7")))


def test_claims_that_are_wrong_are_noted(curve_result, lines):
    assert not any("claims" in line for line in lines(curve_result(OURS, [1.0], [1.0], off=1e-7)))
    assert "case, fastsvm: the objectives that it claims differ from those found by up to 2.0e-06, relatively" in lines(
        curve_result(OURS, [1.0], [1.0], off=2e-6)
    )


def test_picture_shows_the_goal_and_those_who_were_ended(curve_result):
    ours, other = curve_result(OURS, [1.0, 2.0], [2.0, 1.0]), curve_result("sklearn", [2.0], [9.0], status="timeout")
    nobody = Finished(case(), (10, 2), [Result(OURS, "timeout", "warm-up took more than 360 s")])
    drawn = SUITES["linear"].view.figure([Finished(case(), (10, 2), [ours, other]), nobody], "a fit", 60.0)
    left = drawn.axes[0]
    assert any(set(line.get_ydata()) == {goals.GOAL} for line in left.lines)
    assert [list(line.get_ydata()) for line in left.lines[:2]] == [[1.0, 0.5], [8.0]]
    assert picture.figure([nobody], "a fit", 60.0)


def test_curve_ends_where_a_fit_takes_too_long(tmp_path, capsys, monkeypatch):
    """Whatever the machine: budgets grow until one fit takes more than the time allowed."""
    monkeypatch.setitem(SUITES, "linear", replace(SUITES["linear"], worker="tests_slow_curve"))
    (tmp_path / "tests_slow_curve.py").write_text(
        "from dataclasses import replace\n"
        "from bench.linear import competitors\n"
        "from bench.workers import curve, serve\n"
        "one = competitors.linear_competitor('linear', 'sklearn')\n"
        "competitors.LINEAR_COMPETITORS[:] = [replace(one, budgets=(1, 2, 10**9))]\n"
        "serve(curve.prepare)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    out = tmp_path / "results"
    command = ["linear", "--quick", "--only", "sklearn", "--repeat", "1", "--timeout", "0.5", "--out", str(out)]
    assert main(command) == 0
    (path,) = out.glob("*.json")
    (found,) = json.loads(path.read_text())["cases"][0]["results"]
    assert found["status"] == "timeout"
    assert [point["budget"] for point in found["curve"]] == [1, 2]
    assert "digits-linear, sklearn: fit with budget 1e+09 took more than 0.5 s" in capsys.readouterr().out
