"""Are times to a goal right, and does the table show what is wrong?"""

from dataclasses import replace

import pytest

from bench.classical.parameters import ClassicalParameters
from bench.classical.table import compared, failures, lines, reached
from bench.harness.outcomes import Result
from bench.harness.suite import Case, Finished

FINDING = {
    "primal": 2.0, "dual": 2.0, "violation": 0.0, "accuracy": 0.9, "feasible": True, "own_gap": 1e-5,
    "same_signs": 1.0, "agreement": 1.0,
}  # fmt: skip


def result(name="smo", seconds=1.0, **finding):
    record = {"seconds": seconds, "warnings": [], "claimed": {"duality_gap_": 2e-5}, "parts": {}}
    return Result(name, records=[record], findings=[FINDING | finding])


def finished(*results, group="coordinate"):
    return Finished(Case("case", ("classical",), lambda: None, ClassicalParameters(group)), (10, 2), list(results))


def failed(*results, group="coordinate"):
    return "\n".join(failures(finished(*results, group=group)))


# --- times to a goal ----------------------------------------------------------------------------------------


def test_time_to_a_goal_counts_what_was_not_recorded():
    record = {"seconds": 5.0, "curve": {"time": [1.0, 2.0, 4.0], "objective": [9.0, 10.0, 11.0]}}
    assert reached(record, -1, goal=-10.0, end=-11.0) == 3.0
    assert reached(record, -1, goal=-11.0 - 1e-9, end=-11.0) == 5.0
    assert reached(record, -1, goal=-12.0, end=-11.0) is None
    assert reached(record, 1, goal=9.5, end=9.4) == 2.0
    assert reached({**record, "curve": {"time": [1.0], "objective": [8.0]}}, -1, goal=-9.0, end=-9.0) == 5.0


def test_ratio_is_to_the_time_to_the_goal_if_there_is_one(options):
    first, loop = result("smo, exact", 4.0), result("numpy primal loop", 10.0, primal=2.1)
    first.records[0]["curve"] = {"time": [1.0, 3.0], "objective": [2.05, 2.0]}
    both = finished(first, loop, group="primal loop")
    assert compared(first, both) == {"gaps": [1e-5], "reached_s": 2.0, "ratio": 1, "ratio_to_goal": None}
    found = compared(loop, both)
    assert (found["reached_s"], found["ratio"], found["ratio_to_goal"]) == (None, 2.5, 5.0)
    assert found["gaps"] == [pytest.approx(0.1 / 2.1)]  # to the dual objective of the exact method
    own, row = (line.split() for line in lines([both], options)[2:4])
    assert own[3:] == ["4.0000", "4.0000-4.0000", "2.0000", "1.00", "2", "1.0e-05", "1.0e-05", "0.9000", "1.0000"]
    # What the loop claims would be of another problem.
    assert row[4:] == ["10.0000", "10.0000-10.0000", "5.00", "2.1", "4.8e-02", "0.9000", "1.0000"]
    slower = result("smo, exact", 4.0, primal=3.0)
    slower.records[0]["curve"] = first.records[0]["curve"]
    assert "the objective of numpy primal loop was not reached" in failed(slower, loop, group="primal loop")


def test_choices_are_told(options):
    one = finished(result("numpy dual loop"), group="dual loop")
    tuned = replace(one.case.parameters, rates=(0.1, 0.2), rate=0.2, tol=1e-4)
    told = lines([one._replace(case=replace(one.case, parameters=tuned))], options)[-1]
    assert told == "case: rate 0.2, the best of 2; tol 0.0001 for exact steps."


# --- what is wrong ------------------------------------------------------------------------------------------


def test_what_goes_wrong_is_told():
    assert failed(result(), result("coordinate, cyclic")) == ""
    assert "constraints of the dual problem are violated by 1.0e-02" in failed(result(feasible=False, violation=0.01))
    assert failed(result("primal, loop's rate", feasible=False, violation=0.01), group="primal loop") == ""
    assert "below a lower bound, by 1.0e-02" in failed(result(own_gap=-0.01))
    assert "the gap is 5.00e-03, allowed is 0.001" in failed(result("coordinate, cyclic", own_gap=5e-3))
    assert "the gap is unknown" in failed(result("coordinate, cyclic", own_gap=None))
    assert "it claims a gap of 1.00e-05, the referee finds 5.00e-03" in failed(result(own_gap=5e-3))
    assert failed(result("primal, loop's rate", own_gap=5e-3), group="primal loop") == ""
    assert "the objective of numpy dual loop was not reached" in failed(result("coordinate, exact"), group="dual loop")


def test_signs_must_agree_of_those_who_are_close_only():
    other = result("coordinate, cyclic", same_signs=0.9)
    assert "only 90.00% of the signs" in failed(result(), other)
    assert "signs" not in failed(result(), result("coordinate, cyclic", own_gap=0.1, same_signs=0.9))
    assert "signs" not in failed(result(own_gap=0.1), other)


def test_warnings_and_predictions_are_told():
    one, loop = result(agreement=0.5), result("numpy dual loop")
    one.records[0]["warnings"] = loop.records[0]["warnings"] = ["did not converge"]
    assert "case, smo: did not converge" in failed(one)
    assert "its predictions are not those of its own coefficients" in failed(one)
    assert "did not converge" not in failed(loop)
