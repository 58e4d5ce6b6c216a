"""Are the curves of the fit and of the loops compared rightly?"""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bench.__main__ import main
from bench.cases import CASES
from bench.harness.competitor import OURS
from bench.harness.outcomes import Result
from bench.harness.suite import Case, Finished
from bench.streaming import looping
from bench.streaming.comparison import failures, lines, measured, with_times
from bench.streaming.competitors import LOOPS
from bench.streaming.parameters import StreamingParameters
from bench.streaming.picture import figure


def found(**fit):
    """Return what is measured of three epochs, of the first without an objective, and three points of each loop."""
    history = {
        "time": [1.5, 2.0, 5.0], "objective": [None, 20.0, 10.0], "dual_objective": [None, 5.0, 9.0],
        "gap": [None, 0.75, 0.1], "bytes_read": [10e6, 30e6, 50e6],
    }  # fmt: skip
    curves = ((1.0, 40.0), (6.0, 20.0), (30.0, 9.5)), ((2.0, 45.0), (4.0, 30.0), (20.0, 10.0))
    reading = {"first_s": 0.5, "again_s": 0.1, "mb": 30.72, "from_disk": True, "peak_mb": 50.0, "warnings": []}
    own = {
        "history": history, "seconds": 5.5, "objective": 10.0, "epochs": 3, "stopped": "tol", "peak_mb": 450.0,
        "warnings": [], **fit,
    }  # fmt: skip
    results = [
        Result("reading", records=[reading], findings=[{"objective": None, "objectives": []}]),
        Result(OURS, records=[own], findings=[{"objective": 10.0, "objectives": [10.0]}]),
    ]
    for name, curve in zip(LOOPS, curves, strict=True):
        points = [{"seconds": s, "epochs": s / 100} for s, _ in curve]
        objectives = [value for _, value in curve]
        finding = {"objective": objectives[-1], "objectives": objectives}
        record = {"points": points, "peak_mb": 300.0, "warnings": []}
        results.append(Result(name, records=[record], findings=[finding]))
    parameters = StreamingParameters(0.1, 10_000, 256, "8MB", 30, 1000)
    return Finished(Case("case", ("streaming",), lambda: None, parameters), (10_000, 3072), results)


def test_each_is_asked_when_the_other_was_as_good():
    both = with_times(measured(found()))
    names = "epoch_s", "reads", "read_mb", "objective", "gap", "loop_there_s"
    assert [tuple(point[name] for name in names) for point in both[OURS]["points"]] == [
        (1.5, 3.0, 10.0, None, None, None),
        (0.5, 1.0, 20.0, 20.0, 0.75, 6.0),
        (3.0, 6.0, 20.0, 10.0, 0.1, 20.0),
    ]
    assert [point["fit_there_s"] for point in both["loop"]["points"]] == [2.0, 2.0, None]
    assert [point["fit_there_s"] for point in both["loop without average"]["points"]] == [2.0, 2.0, 5.0]


def test_tables_say_who_was_not_there_and_how_much_memory_was_taken(options):
    given = found()
    for result in given.results[2:]:
        result.records[0]["points"].pop()
        result.findings[0]["objectives"].pop()
    text = "\n".join(lines([given], options))
    assert "31 MB are read once from the disk in 0.5 s (61 MB/s), and again in 0.1 s (307 MB/s)." in text
    assert "not in 30" in text
    assert "The fit's is 0.50 of 900 MB" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["loop", "0.060", "6.000", "20", "1.0e+00", "2.000", "3.0"] in rows
    assert ["loop", "without", "average", "0.040", "4.000", "30", "2.0e+00", "2.000", "2.0"] in rows


def test_claims_that_are_wrong_are_told():
    assert failures(found(objective=10.000001)) == []
    assert failures(found(objective=10.0001)) == [
        "case, fastsvm: it claims the objective 10.0001, the referee finds 10"
    ]


def test_who_did_not_finish_is_told(options):
    given = found()
    given.results[1] = Result(OURS, "failed", "Error: 7")
    assert failures(given) == []
    text = "\n".join(lines([given], options))
    assert "fastsvm: Error: 7" in text
    assert figure([given], "fit", 60.0)


def test_picture_shows_both_above_the_bound():
    drawn = figure([found()], "fit", 60.0)
    ours, theirs, *_ = drawn.axes[0].lines
    np.testing.assert_allclose(ours.get_ydata(), [20 / 9 - 1, 10 / 9 - 1])
    np.testing.assert_allclose(theirs.get_ydata(), [40 / 9 - 1, 20 / 9 - 1, 9.5 / 9 - 1])
    assert [bar.get_height() for bar in drawn.axes[1].patches] == [1.5, 0.5, 3.0]


def test_quick_run_measures_judges_and_saves(command_in_process, tmp_path, capsys, monkeypatch):
    (quick,) = [one for one in CASES if one.name == "digits-4MB"]
    fewer = replace(quick.parameters, rows=8_000, memory="1MB", limit_s=30, max_iter=20)
    monkeypatch.setattr("bench.cases.CASES", [replace(quick, parameters=fewer)])
    # A second for each part of the file, however busy the machine is.
    monkeypatch.setattr(looping, "time", SimpleNamespace(perf_counter=itertools.count().__next__))
    assert main(["streaming", "--quick", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("streaming-*.json")
    assert path.with_suffix(".png").stat().st_size > 1000
    (case,) = json.loads(path.read_text())["cases"]
    reading, fit, loop, last = case["results"]
    assert case["shape"] == [8_000, 64]
    (record,), (finding,) = fit["records"], fit["findings"]
    assert record["objective"] == pytest.approx(finding["objective"], rel=1e-6)
    epochs, points = fit["points"], loop["points"]
    known = [one["objective"] for one in epochs if one["objective"] is not None]
    assert known[-1] < known[0]
    assert len(known) >= len(epochs) - 1
    assert 0 < epochs[0]["after_s"] <= epochs[-1]["after_s"] <= record["seconds"]
    assert epochs[0]["read_mb"] > 0.9 * 8_000 * 64 / 1e6
    bounds = [value for value in record["history"]["dual_objective"] if value is not None]
    assert max(bounds) <= min(known)
    assert max(bounds) < points[-1]["objective"] < points[0]["objective"]
    assert points[-1]["seconds"] >= 30
    assert all(one["records"][0]["peak_mb"] > 20 for one in (reading, fit, loop, last))
    assert "SGDClassifier.partial_fit" in capsys.readouterr().out
