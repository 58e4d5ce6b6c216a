"""Do the benchmarks run, measure what they say, and show whatever goes wrong?"""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.svm import SVC

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from bench import growth, tables  # noqa: E402
from bench.__main__ import _too_slow, main  # noqa: E402
from bench.adapters.layout import sorted_layout  # noqa: E402
from bench.cases import CASES, Case, cases_of  # noqa: E402
from bench.competitors import COMPETITORS, OURS, Competitor, KernelParameters  # noqa: E402
from bench.data import Data, save  # noqa: E402
from bench.outcomes import Options, Result  # noqa: E402
from bench.processes import Crew, Ended  # noqa: E402
from bench.report import Report  # noqa: E402
from bench.suites import SUITES, competitors_of  # noqa: E402
from bench.tables import Finished  # noqa: E402
from bench.workers import ANSWER, Task  # noqa: E402
from bench.workers.memory import Memory  # noqa: E402

OPTIONS = Options(repeat=1, timeout=60, threads=2, memory_mb=100, gap=True, quick=True)
FINDING = {
    "objective": 2.0, "bound_violation": 0.0, "balance_violation": 0.0, "kkt_gap": 1e-4, "duality_gap": 0.0,
    "n_support": 3, "accuracy": 0.9, "agreement": 1.0,
}  # fmt: skip


def result(name=OURS, seconds=1.0, added_mb=10.0, status="ok", **finding):
    record = {
        "seconds": seconds, "parts": {"warm-up": 0.1}, "before_mb": 50.0, "peak_mb": 50 + added_mb,
        "added_mb": added_mb, "rows_mb": 20.0, "warnings": [], "claimed": {"kkt_violation_": 1e-4}, "n_iter": [1],
    }  # fmt: skip
    return Result(name, status, records=[record], findings=[FINDING | finding])


def case(name="case", series="", **given):
    return Case(name, ("kernel",), lambda: None, KernelParameters(**given), series=series)


def printed(*results, **given):
    return "\n".join(tables.lines([Finished(case(**given), (10, 2), list(results))], OPTIONS))


# --- the table of cases -------------------------------------------------------------------------------------


def test_names_are_unique_and_suites_exist():
    assert {suite for one in CASES for suite in one.suites} == set(SUITES)
    for suite in SUITES:
        assert len(competitors_of(suite)) == sum(suite in one.suites for one in SUITES[suite].competitors) > 1
        names = [one.name for one in CASES if suite in one.suites]
        assert len(names) == len(set(names))
        assert any(one.quick for one in cases_of(suite).values()), f"{suite} has no quick case"


# --- the whole ----------------------------------------------------------------------------------------------


def test_all_suites_run_and_are_saved(tmp_path):
    command = [sys.executable, "-m", "bench", "all", "--quick", "--repeat", "1", "--out", str(tmp_path)]
    command += ["--only", "fastsvm", "--only", "sklearn"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for suite in SUITES:
        (path,) = tmp_path.glob(f"{suite}-*.json")
        assert path.with_suffix(".png").stat().st_size > 1000
        content = json.loads(path.read_text())
        assert [one["name"] for one in content["cases"]] == [one.name for one in cases_of(suite).values() if one.quick]
        for one in content["cases"]:
            assert [each["competitor"] for each in one["results"]] == ["fastsvm", "sklearn"]
            for each in one["results"]:
                (check_curve if suite in ("sgd", "linear") else check_result)(each, suite)
        assert set(content["exponents"].get("synthetic", ())) == (
            {"fastsvm", "sklearn"} if suite == "growth" else set()
        )
    assert "exponent of time against n" in done.stdout


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
    assert {"predict": "fit", "cold": "import"}.get(suite, "warm-up") in record["parts"]


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


# --- processes ----------------------------------------------------------------------------------------------


def test_process_that_fails_is_told_with_its_last_line(tmp_path):
    task = Task("sklearn", "fit", asdict(KernelParameters()), 1, 100, str(tmp_path / "nothing"), 60)
    with Crew() as crew, pytest.raises(Ended, match="FileNotFoundError") as caught:
        crew.run("bench.workers.fit", task, tmp_path, {}, "session")
    assert caught.value.status == "failed"


def test_memory_of_an_action_is_its_peak():
    memory = Memory()
    if not memory.resets:
        pytest.skip("the system cannot forget an earlier peak")
    for _ in range(2):
        np.ones(25_000_000)
    assert 190 < memory.json()["added_mb"] < 260


# --- what is printed ----------------------------------------------------------------------------------------


def test_worse_answers_are_noted():
    assert "case, fastsvm" not in printed(result())
    assert "KKT gap 2.00e-02 is above the tolerance 0.001" in printed(result(kkt_gap=0.02))
    assert "it claims a KKT gap of 1.00e-04, the referee finds 5.00e-04" in printed(result(kkt_gap=5e-4))
    assert "constraints are violated" in printed(result(balance_violation=1.0))
    assert "1.00% of its predictions are not those of its own answer" in printed(result(agreement=0.99))
    assert "-5.0e-01" in printed(result(), result("sklearn", objective=1.0))


def test_only_our_memory_beyond_the_budget_is_noted():
    allowed = 100 * 2**20 / 1e6 + 20 + 300
    assert "are budget, rows and slack" not in printed(result(added_mb=allowed - 1))
    assert "case, fastsvm: 426 MB were added, 425 MB are" in printed(result(added_mb=allowed + 1))
    assert "are budget, rows and slack" not in printed(result(), result("sklearn", added_mb=10 * allowed))


def test_ratio_is_to_ours_and_is_bounded_below_after_a_timeout():
    text = printed(result(seconds=2.0), result("sklearn", seconds=5.0), result("thundersvm", status="timeout"))
    assert [line.split()[4] for line in text.splitlines()[2:4]] == ["1.00", "2.50"]
    assert "> 30.0" in text


# --- growth -------------------------------------------------------------------------------------------------


def test_exponent_is_the_slope_of_the_finished_sizes():
    finished = [
        Finished(case(f"{n}", series="s"), (n, 2), [result(seconds=1e-6 * n**1.7), result("sklearn", status=status)])
        for n, status in ((1000, "ok"), (2000, "ok"), (4000, "timeout"))
    ]
    assert growth.exponents(finished)["s"] == pytest.approx({OURS: 1.7, "sklearn": 0.0})
    assert growth.exponents([Finished(case(), (10, 2), [result()])]) == {}
    assert "1000-4000" in "\n".join(growth.exponent_lines(finished))


def test_larger_sizes_are_left_out_after_a_timeout(tmp_path):
    report = Report("growth", OPTIONS, tmp_path)
    report.finished.append(Finished(case("1", "s"), (1, 2), [result(), result("sklearn", status="timeout")]))
    assert _too_slow(case("2", "s"), report) == ["sklearn"]
    assert _too_slow(case("2", "other"), report) == _too_slow(case("2"), report) == []


# --- adapters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_layout_is_that_of_sorted_classes(n_classes):
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < n_classes)[:200]
    X, codes = X[few] / 16, n_classes - 1 - y[few]
    model = SVC(C=1, gamma=0.1, tol=1e-9).fit(X, codes)
    order = list(dict.fromkeys(codes.tolist()))
    assert order != sorted(order)
    # SVC numbers classes by value: renumbered by appearance its own layout is LIBSVM's.
    renumbered = np.array([order.index(one) for one in codes])
    other = SVC(C=1, gamma=0.1, tol=1e-9).fit(X, renumbered)
    sign = -1 if n_classes == 2 else 1
    coef, intercept = sorted_layout(codes, other.support_, sign * other.dual_coef_, -sign * other.intercept_)
    by_row = np.zeros((2, n_classes - 1, len(codes)))
    by_row[0][:, model.support_] = model.dual_coef_
    by_row[1][:, other.support_] = coef
    np.testing.assert_allclose(*by_row, atol=1e-4)
    np.testing.assert_allclose(intercept, model.intercept_, atol=1e-4)


@pytest.mark.parametrize("competitor", COMPETITORS, ids=lambda one: one.name)
def test_answers_of_competitors_are_optimal_and_predict(competitor, tmp_path):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    parameters = KernelParameters(C=1, gamma=0.1)
    with Crew() as crew:
        for n_classes, form in product((2, 4), (np.asarray, sparse.csr_matrix)):
            folder = tmp_path / f"{n_classes}-{form.__name__}"
            folder.mkdir()
            data = reversed_digits(n_classes, form)
            save(data, folder)
            task = Task(competitor.name, "predict", asdict(parameters), 2, 100, str(folder), 60)
            crew.run("bench.workers.fit", task, folder, {}, "session")
            with np.load(folder / ANSWER) as stored:
                (found,) = SUITES["predict"].judge(parameters, data, [dict(stored)], True)
            assert found["kkt_gap"] < 1.1e-3
            assert found["agreement"] > 0.99
            assert found["accuracy"] > 0.9


def reversed_digits(n_classes, form):
    """Return a few digits whose classes do not appear in order, and whose labels are not their numbers."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X, y = X[::-1] / 16, y[::-1] + 3
    return Data(form(X[:300]), y[:300], form(X[300:]), y[300:])
