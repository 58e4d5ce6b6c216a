"""Random draws are right, and the same each time; the ranking says what is slow or wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench.__main__ import main
from bench.sweep.draws import drawn
from bench.sweep.estimators import pair_of
from bench.sweep.measuring import measured
from bench.sweep.ranking import by_estimator, lines, slowest, summary
from bench.sweep.referee import judged
from bench.sweep.samples import samples

_N_DRAWS = 60
_LEFT_OUT = {}
"""Draws whose answers are wrong, with the reason."""


@pytest.mark.parametrize("number", range(_N_DRAWS))
def test_the_answer_of_a_draw_is_right(number):
    if number in _LEFT_OUT:
        pytest.skip(_LEFT_OUT[number])
    found = measured(drawn(0, number, quick=True), enough_s=0.0)
    assert found["status"] in ("right", "refused"), found
    if found["status"] == "right":
        assert found["ours"]["seconds"] <= 100 * found["theirs"]["seconds"] + 1, found


def test_a_number_is_always_the_same_draw():
    one, other = drawn(3, 7), drawn(3, 7)
    assert one == other and drawn(3, 8) != one != drawn(4, 7)
    first, second = (samples(drawn(0, 8, quick=True)) for _ in range(2))
    assert (first.X != second.X).nnz == 0 and np.array_equal(first.y, second.y)


def test_draws_have_all_kinds_within_their_bounds():
    draws = [drawn(0, number) for number in range(1_000)]
    assert len({draw.estimator for draw in draws}) == 13
    assert {draw.task for draw in draws} == {"fit", "predict", "decision_function", "partial_fit", "search"}
    assert {draw.storage for draw in draws} == {"float64", "float32", "csr", "hdf5"}
    assert all(3 * draw.classes <= draw.n or draw.classes == 2 for draw in draws)
    assert min(draw.n for draw in draws) < 25 and max(draw.n for draw in draws) > 100_000
    assert max(draw.classes for draw in draws) > 200 and max(draw.d for draw in draws) > 10_000


def _wrong(model):
    """Spoil a fitted model."""
    name = "dual_coef_" if hasattr(model, "dual_coef_") else "coef_"
    setattr(model, name, 3 * np.asarray(getattr(model, name)) + 1)
    return model


@pytest.mark.parametrize("name, given", [
    ("SVC", {"C": 1.0, "kernel": "rbf", "gamma": "scale"}), ("NuSVR", {"C": 1.0, "nu": 0.3, "kernel": "linear"}),
    ("LinearSVC", {"C": 1.0, "penalty": "l2", "loss": "squared_hinge"}), ("LinearOneClassSVM", {"nu": 0.2}),
    ("SGDRegressor", {"loss": "huber", "penalty": "l1", "alpha": 1e-4}),
])  # fmt: skip
def test_the_referee_refuses_a_wrong_answer(name, given):
    classes = 4 if name.endswith("SVC") else 0
    draw = replace(drawn(0, 0), estimator=name, task="fit", rows=0, n=60, d=4, density=1.0, classes=classes,
                   data="blobs", scaling="none", storage="float64", given=given, peer="")  # fmt: skip
    data = samples(draw)
    models = [make().fit(data.X, data.y) for make in pair_of(draw, data.X)]
    assert judged(draw, data, tuple(models), tuple(models)).right
    assert not judged(draw, data, (_wrong(models[0]), models[1]), tuple(models)).right


def _finding(number, ratio, seconds=1.0, status="right"):
    draw = replace(drawn(0, number), estimator="SVC")
    sides = {"ours": {"seconds": seconds, "warnings": [], "value": 2.0}}
    sides["theirs"] = {"seconds": ratio * seconds, "warnings": ["slow"], "value": 1.0}
    return {"draw": vars(draw), "line": draw.line(), "ratio": ratio, "status": status, "by": "objective", **sides}


def test_the_ranking_has_the_slowest_and_the_wrong():
    findings = [_finding(k, ratio) for k, ratio in enumerate([4.0, 0.5, 0.9, 1.0])]
    findings += [_finding(9, 0.01, seconds=1e-4), _finding(5, 8.0, status="wrong")]
    hung = {"draw": vars(drawn(0, 6)), "line": drawn(0, 6).line(), "status": "hung", "errors": {"after 9 s": "theirs"}}
    assert [one["ratio"] for one in slowest([*findings, hung])] == [0.5, 0.9, 1.0, 4.0, 8.0]
    found = summary([*findings, hung])
    assert found[:3] == (5, 1, 1) and found.mean == pytest.approx((4 * 0.5 * 0.9 * 8) ** (1 / 5))
    text = "\n".join(lines([*findings, hung]))
    assert "objective 2 and 1  <-- wrong" in text and "after 9 s: theirs" in text and "1 hung" in text
    assert by_estimator(findings)[1][1:] == ("6", "0.50", f"{found.mean:.2f}", "8.00", "1", "2", "1")
    assert summary([hung]).mean is None and lines([hung])


def test_the_command_measures_in_a_process_and_saves(tmp_path, capsys):
    assert main(["sweep", "--quick", "--only", "0", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("sweep-*.json")
    (case,) = json.loads(path.read_text(encoding="utf-8"))["cases"]
    assert case["results"]["draw"]["number"] == 0 and case["results"]["status"] == "right"
    assert "#0 quick" in capsys.readouterr().out


def test_a_draw_that_hangs_is_recorded(tmp_path, capsys):
    assert main(["sweep", "--only", "0", "--limit", "0.01", "--out", str(tmp_path)]) == 1
    assert "hung" in capsys.readouterr().out
