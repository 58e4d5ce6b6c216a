"""Does the command run its suites, save what they say, and skip what is missing?"""

import json
from dataclasses import replace
from functools import partial

import pytest

from bench import recipes
from bench.__main__ import _too_slow, main
from bench.cases import CASES, cases_of
from bench.harness.competitor import Competitor
from bench.harness.report import Report
from bench.harness.suite import Case, Finished
from bench.kernel.competitors import KernelParameters
from bench.linear.competitors import LINEAR_COMPETITORS
from bench.suites import SUITES, competitors_of


def test_names_are_unique_and_suites_exist():
    assert {suite for one in CASES for suite in one.suites} == set(SUITES)
    for suite in SUITES:
        assert len(competitors_of(suite)) == sum(suite in one.suites for one in SUITES[suite].competitors) > 1
        names = [one.name for one in CASES if suite in one.suites]
        assert len(names) == len(set(names))
        assert any(one.quick for one in cases_of(suite).values()), f"{suite} has no quick case"


# --- the whole ----------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Leave few cases of kernel machines and linear models, and few budgets."""
    quick = [one for one in CASES if one.name in ("iris", "digits-sgd", "digits-linear")]
    kernel = KernelParameters(C=10, gamma=0.03)
    cancer = Case("cancer", ("kernel", "predict"), recipes.breast_cancer, kernel, quick=True)
    wide = KernelParameters(C=10, gamma=0.01)
    sizes = [Case(f"{n}", ("growth",), partial(recipes.synthetic, n), wide, True, "synthetic") for n in (500, 1000)]
    monkeypatch.setattr("bench.cases.CASES", [*quick, cancer, *sizes])
    everyone = list(LINEAR_COMPETITORS)
    LINEAR_COMPETITORS[:] = [
        replace(one, budgets=one.budgets[::-2][::-1]) for one in everyone if 1000 not in one.budgets
    ]
    LINEAR_COMPETITORS.extend(replace(one, budgets=(1, 10, 300)) for one in everyone if 1000 in one.budgets)
    yield
    LINEAR_COMPETITORS[:] = everyone


def test_all_suites_run_and_are_saved(small, command_in_process, tmp_path, capsys):
    command = ["all", "--quick", "--repeat", "1", "--out", str(tmp_path), "--only", "fastsvm", "--only", "sklearn"]
    assert main(command) == 0
    for suite in ("kernel", "multiclass", "predict", "growth", "sgd", "linear"):
        (path,) = tmp_path.glob(f"{suite}-*.json")
        assert path.with_suffix(".png").stat().st_size > 1000
        content = json.loads(path.read_text())
        assert {"machine", "date", "options"} <= set(content)
        assert [one["name"] for one in content["cases"]] == list(cases_of(suite))
        for one in content["cases"]:
            assert [each["competitor"] for each in one["results"]] == ["fastsvm", "sklearn"]
            for each in one["results"]:
                (check_curve if suite in ("sgd", "linear") else check_result)(each, suite)
        assert set(content["exponents"].get("synthetic", ())) == (
            {"fastsvm", "sklearn"} if suite == "growth" else set()
        )
    assert "exponent of time against n" in capsys.readouterr().out


def check_result(each, suite):
    assert each["status"] == "ok"
    assert each["median_s"] > 0
    assert each["objective_deficit"] < 1e-5
    (finding,) = each["findings"]
    assert finding["kkt_gap"] < 2e-3
    assert finding["accuracy"] > 0.8
    assert finding["agreement"] == 1
    (record,) = each["records"]
    assert record["peak_mb"] >= record["before_mb"] > 0
    assert {"predict": "fit"}.get(suite, "warm-up") in record["parts"]


def check_curve(each, suite):
    assert each["status"] == "ok"
    (finding,) = each["findings"]
    (record,) = each["records"]
    budgets = list(competitors_of(suite)[each["competitor"]].budgets)
    assert [one["budget"] for one in finding["points"]] == [one["budget"] for one in record["points"]] == budgets
    assert [one["seconds"] for one in each["curve"]] == [one["seconds"] for one in record["points"]]
    assert each["median_s"] == each["curve"][-1]["seconds"] > 0
    assert each["curve"][-1]["objective"] == finding["objective"] < each["curve"][0]["objective"]
    assert finding["accuracy"] > 0.9
    assert "warm-up" in record["parts"]
    if suite == "sgd":
        assert each["reached"]["objective"] <= finding["objective"]
        assert each["ratio"] == each["median_s"] / each["reached"]["seconds"]
    else:
        assert each["best"] <= each["arrival"]["objective"] <= 1.005 * each["best"]
        assert each["ratio"] > 0


def test_fit_that_takes_too_long_is_reported(tmp_path, capsys):
    arguments = ["multiclass", "--case", "digits", "--only", "sklearn", "--timeout", "0.002", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "digits, sklearn: fit took more than 0.002 s" in capsys.readouterr().out
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["cases"][0]["results"][0]["status"] == "timeout"


def test_missing_data_are_skipped_with_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FASTSVM_DATA", raising=False)
    assert main(["kernel", "--case", "a9a", "--out", str(tmp_path)]) == 0
    assert "a9a is skipped: FASTSVM_DATA names no folder" in capsys.readouterr().out


def test_missing_competitors_are_skipped_with_a_line(tmp_path, capsys, monkeypatch):
    ghost = Competitor("ghost", "no_such_module", ("kernel",), lambda *given: None)
    monkeypatch.setitem(SUITES, "kernel", replace(SUITES["kernel"], competitors=[ghost]))
    assert main(["kernel", "--quick", "--out", str(tmp_path)]) == 0
    assert "ghost is skipped: the module no_such_module cannot be imported" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nothing"], ["kernel", "--case", "nothing"], ["all", "--only", "nothing"]])
def test_unknown_names_are_one_line_and_exit_code_two(arguments, capsys):
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert "'nothing'" in message
    assert message.count("\n") == 1


def test_larger_sizes_are_left_out_after_a_timeout(tmp_path, kernel_case, kernel_result, options):
    report = Report("growth", SUITES["growth"].view, options, tmp_path)
    results = [kernel_result(), kernel_result("sklearn", status="timeout")]
    report.finished.append(Finished(kernel_case("1", "s"), (1, 2), results))
    assert _too_slow(kernel_case("2", "s"), report) == ["sklearn"]
    assert _too_slow(kernel_case("2", "other"), report) == _too_slow(kernel_case("2"), report) == []
