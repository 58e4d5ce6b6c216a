"""What do the tables say of runs whose numbers are known?"""

import json
from itertools import count

import pytest

from bench.linear.small import CASES, compare
from bench.stored import kept, studies


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """Return a function that keeps a run, which has results by the names of cases."""
    monkeypatch.setattr(kept, "_RUNS", tmp_path)
    numbers = count()

    def keep(suite, cases):
        content = {"cases": [{"name": name, "results": found} for name, found in cases.items()]}
        (tmp_path / f"{suite}-{next(numbers)}.json").write_text(json.dumps(content), encoding="utf-8")

    return keep


def test_small_linear_machines_are_compared_for_each_loss(stored):
    def found(loss, seconds, objective):
        names = "competitor", "loss", "median_s", "objective"
        values = zip(("fastsvm", "liblinear"), (loss, loss), seconds, objective, strict=True)
        return [dict(zip(names, each, strict=True)) for each in values]

    classes = [*found("squared_hinge", (1e-3, 4e-3), (10.0, 10.001)), *found("hinge", (2e-3, 3e-3), (5.0, 20.0))]
    stored("small_linear", {"wine": classes})
    stored("small_linear", {"diabetes": found("epsilon_insensitive", (1e-3, 1e-3), (1.0, 1.001))})
    assert studies.small_linear()[2:] == ["| wine, as it is | 1 | 4 | 4.0 | 2 | 3 | 1.5 |"]
    assert studies.small_targets()[2:] == ["| diabetes | 1 | 1 | 1.0 |"]
    assert " ".join(studies.small_linear_in_short()).endswith("in these cases: wine, as it is (300%).")
    assert CASES.keys() == studies._SMALL.keys()


def test_a_small_case_is_fitted_in_turn_and_judged():
    X, y = CASES["iris"].made()
    for ours, theirs in zip(*2 * [compare(X, y, "squared_hinge", n_fits=2)], strict=True):
        assert ours["competitor"] == "fastsvm" and len(ours["seconds"]) == len(theirs["seconds"]) == 2
        assert 0 < ours["objective"] <= theirs["objective"] * (1 + 1e-9) < 1.01 * ours["objective"]


def test_comparisons_that_differ_are_counted_by_their_reason(stored):
    def one(agree, reason="", gap=1e-12, other_gap=1e-7):
        return {"agree": agree, "reason": reason, "gap": gap, "other_gap": other_gap}

    same, free = one([True, True]), one([True, False], "the intercept is free")
    stored("machines_agreement", {"svr": [same, free, one([False, False], "its gap is larger", 1e-9, 1e-3)]})
    stored("machines_agreement", {"nu": [free, same, one([True, False], "the kernel is indefinite", 100.0)]})
    text = " ".join(studies.machines_agreement_in_short())
    assert "Of 6 comparisons" in text and " in 5, " in text and " in 2, both in 2." in text
    assert studies.machines_agreement()[2:] == [
        "| 2 | the intercept is free | 1e-12 | 1e-07 |", "| 1 | its gap is larger | 1e-09 | 1e-03 |",
        "| 1 | the kernel is indefinite | – | – |",
    ]  # fmt: skip


def test_textbook_solvers_have_the_objective_of_their_side(stored):
    finding = {"primal": 3.0, "dual": 2.5}
    result = {
        "competitor": "a", "median_s": 0.25, "seconds": [0.2, 0.25, 0.5], "gaps": [None, 1e-5], "findings": [finding],
        "reached_s": None,
    }  # fmt: skip
    stored("classical", {name: [result] for name in studies._TEXTBOOK})
    rows = studies.textbook()[2:]
    assert "| a | 0.25 | 0.2–0.5 | 2.5 | 1.0e-05 |" in rows[0]
    assert "| a | 0.25 | 0.2–0.5 | 3 | 1.0e-05 |" in rows[-1]


def test_a_large_file_is_told_by_epochs_and_by_moments_of_the_loops(stored):
    epochs = [
        {"epoch": 1, "after_s": 10.0, "objective": None, "gap": None, "reads": 1.5},
        {"epoch": 2, "after_s": 20.0, "objective": 5.0, "gap": 1e-3, "reads": None},
    ]
    moments = [{"seconds": float(s), "objective": 100.0 / s} for s in range(1, 13)]
    reading = {"competitor": "reading", "records": [{"first_s": 4.0, "again_s": 0.5, "mb": 8000.0, "peak_mb": 50.0}]}
    fit = {"competitor": "fastsvm", "records": [{"peak_mb": 600.0}], "points": epochs}
    loop = {"competitor": "loop", "records": [{"peak_mb": 700.0}], "points": moments}
    stored("streaming", {"cifar-10-8GB": [reading, fit, loop]})
    assert studies.large_file()[2:] == [
        "| `LinearSVC`, epoch 1 | 10.0 | – | – | 1.50 |",
        "| `LinearSVC`, epoch 2 | 20.0 | 5.00 | 1.0e-03 | |",
        "| `SGDClassifier.partial_fit`, averaged | 10 | 10.00 | | |", "| | 11 | 9.09 | | |", "| | 12 | 8.33 | | |",
    ]  # fmt: skip
    assert "4 s (2,000 MB/s), and 0.5 s" in " ".join(studies.reading())


def test_compressed_and_other_models_are_shown_as_they_were_measured(stored):
    def way(name, n, score, seconds):
        return {"way": name, "n_support": n, "score": score, "predict_s": seconds}

    ways = [way("exact", 1000, 0.9, 0.5), way("fewer", 192, 0.88, 0.1), way("tol", 400, 0.9, 0.2)]
    stored("compression", {name: ways for name in studies._COMPRESSED})
    assert studies.compression()[-1].endswith("| 1,000 → 192 | 0.9000 | 0.8800 | – | 0.5 → 0.1 (5.0) | 400 |")
    model = {"competitor": "trees", "accuracy": 0.75, "fit_s": 2.0, "predict_s": 0.25}
    stored("other_models", {name: [model] for name in studies._TABLES})
    assert studies.other_models()[2] == "| a9a, 32,561 × 123 | trees | 0.7500 | 2.00 | 0.25 |"
