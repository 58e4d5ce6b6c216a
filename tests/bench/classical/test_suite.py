"""Do the quick cases of textbook methods run, and are they saved?"""

import json
from dataclasses import replace

import pytest

from bench.__main__ import main
from bench.cases import cases_of
from bench.classical.competitors import CLASSICAL_COMPETITORS
from bench.suites import SUITES, competitors_of


def test_each_competitor_has_a_case_and_each_case_has_competitors():
    for case in cases_of("classical").values():
        assert sum(one.takes_part(case.parameters) for one in competitors_of("classical").values()) > 1
    parameters = [case.parameters for case in cases_of("classical").values()]
    assert all(any(one.takes_part(each) for each in parameters) for one in CLASSICAL_COMPETITORS)
    named = {name for one in CLASSICAL_COMPETITORS for name in (one.against, one.goal) if name}
    assert named <= set(competitors_of("classical"))


@pytest.fixture(scope="module")
def few_warm_ups():
    """Warm up with few samples: the tests measure nothing."""
    everyone = list(CLASSICAL_COMPETITORS)
    CLASSICAL_COMPETITORS[:] = [replace(one, warm_up_rows=one.warm_up_rows[:1]) for one in everyone]
    yield
    CLASSICAL_COMPETITORS[:] = everyone


def test_quick_cases_run_and_are_saved(few_warm_ups, command_in_process, tmp_path, capsys):
    assert main(["classical", "--quick", "--repeat", "1", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "FAILED" not in told
    (path,) = tmp_path.glob("classical-*.json")
    content = json.loads(path.read_text())
    assert [one["name"] for one in content["cases"]] == [n for n, case in cases_of("classical").items() if case.quick]
    assert content["wrong"] == content["skipped"] == []
    for case in content["cases"]:
        assert len(case["results"]) > 1
        for one in case["results"]:
            check_result(case, one)
            assert f"{case['name']}" in told


def check_result(case, one):
    is_loop = case["name"].startswith("loops")
    assert one["status"] == "ok"
    assert one["ratio"] == one["median_s"] / case["results"][0]["median_s"]
    assert all(gap >= -1e-9 for gap in one["gaps"])
    for finding in one["findings"]:
        assert finding["primal"] > 0
        assert (finding["accuracy"] is None) == is_loop
        assert finding["same_signs"] > 0.9
    if one is case["results"][0] and is_loop:
        assert 0 < one["reached_s"] <= one["median_s"]
        loop = next(each for each in case["results"] if each["competitor"].startswith("numpy"))
        assert loop["ratio_to_goal"] == loop["median_s"] / one["reached_s"]


def test_exit_code_is_one_if_an_answer_is_wrong(command_in_process, tmp_path, capsys, monkeypatch):
    view = SUITES["classical"].view._replace(failures=lambda finished: ["an answer is wrong"])
    monkeypatch.setitem(SUITES, "classical", replace(SUITES["classical"], view=view))
    command = ["classical", "--case", "primal-*-squared", "--only", "sklearn, shifted matrix"]
    monkeypatch.delenv("FASTSVM_DATA", raising=False)
    assert main([*command, "--repeat", "1", "--out", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "FAILED: an answer is wrong" in told
    assert "primal-mnist-5000-squared is skipped: FASTSVM_DATA names no folder" in told
