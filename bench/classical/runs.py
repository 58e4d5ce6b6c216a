"""How is a case run? In this process, turn by turn; then everything is judged at once.

Alternation lets a change of the machine's speed meet all alike. Who takes more than a minute is not asked again.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.classical.cases import Case
from bench.classical.competitors import Competitor
from bench.classical.judge import SAME, Finding, Solved, judge, relative_gap, solved
from bench.classical.problems import Problem
from bench.outcomes import Result
from bench.workers.fit import part
from bench.workers.memory import touch
from bench.workers.results import claims_of

__all__ = ["reached", "run_case"]

_LONG_S = 60.0
_MOST_MB = 4000.0


def run_case(case: Case, repeat: int) -> tuple[Problem, list[Competitor], list[Result]]:
    """Measure and judge all competitors of a case."""
    problem = case.problem()
    competitors = case.competitors(problem)
    results = [Result(one.name) for one in competitors]
    answers: list[list[Solved]] = [[] for _ in competitors]
    touch(min(_MOST_MB, 8 * len(problem.data.y) ** 2 / 1e6))
    for turn in range(repeat):
        for one, result, found in zip(competitors, results, answers, strict=True):
            if result.status == "ok" and not any(seconds > _LONG_S for seconds in result.seconds):
                _attempt(one, problem, result, found, turn == 0)
    _examine(problem, competitors, results, answers)
    _time_to_goals(case, competitors, results)
    return problem, competitors, results


def _attempt(one: Competitor, problem: Problem, result: Result, found: list[Solved], first: bool) -> None:
    try:
        if first:
            _warm_up(one, problem)
        record, answer = _fit(one, problem)
    except Exception as error:  # whatever it is, the others go on
        result.status, result.message = "failed", f"{type(error).__name__}: {error}"
        return
    result.records.append(record)
    if not any(np.array_equal(answer.beta, other.beta) and answer[1:] == other[1:] for other in found):
        found.append(answer)


def _warm_up(one: Competitor, problem: Problem) -> None:
    y = problem.data.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_rows in sorted({min(most, len(y)) for most in one.warm_rows}):
            some = part(y, np.unique(y), n_rows)
            one.build().fit(one.some(problem, some), y[some])


def _fit(one: Competitor, problem: Problem) -> tuple[dict[str, Any], Solved]:
    model, rows, y = one.build(), one.rows_of(problem), problem.data.y
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model.fit(rows, y)
        seconds = time.perf_counter() - start
    record = {"seconds": seconds, "warnings": sorted({str(each.message) for each in caught}), **claims_of(model)}
    if one.goal:
        record["curve"] = {name: model.history_[name].tolist() for name in ("time", "objective")}
    if one.rows is None and hasattr(model, "predict"):
        record["positive"] = np.flatnonzero(model.predict(problem.data.X_test) > 0).tolist()
    return record, solved(model, len(y), one.offset)


def _examine(
    problem: Problem, competitors: Sequence[Competitor], results: Sequence[Result], answers: list[list[Solved]]
) -> None:
    """Judge every answer, and write down what was found next to what they are compared with."""
    flat = [(k, answer) for k, found in enumerate(answers) for answer in found]
    if not flat:
        return
    findings = judge(problem, [answer for _, answer in flat])
    of: dict[str, list[Finding]] = {one.name: [] for one in competitors}
    for (k, _), finding in zip(flat, findings, strict=True):
        of[competitors[k].name].append(finding)
    signs = findings[0].signs
    for one, result in zip(competitors, results, strict=True):
        result.findings = [_told(finding, _bound(one, of), signs) for finding in of[one.name]]
        for record in result.records:
            positive = np.isin(np.arange(len(signs)), record.pop("positive", np.flatnonzero(of[one.name][0].signs > 0)))
            agree = [np.mean(positive == (finding.signs > 0)) for finding in of[one.name]]
            record["agreement"] = float(max(agree))


def _bound(one: Competitor, of: dict[str, list[Finding]]) -> float | None:
    """Return the best dual objective of whom the gap is measured to, None for one's own or where there is none."""
    return max((other.dual for other in of.get(one.against or "", []) if other.feasible), default=None)


def _told(finding: Finding, bound: float | None, signs: np.ndarray) -> dict[str, Any]:
    own = finding.gap if finding.feasible else None
    return {
        **{name: getattr(finding, name) for name in ("primal", "dual", "violation", "accuracy", "feasible")},
        "own_gap": own,
        "gap": own if bound is None else relative_gap(finding.primal, bound),
        "same_signs": float(np.mean(finding.signs == signs)),
    }


def _time_to_goals(case: Case, competitors: Sequence[Competitor], results: Sequence[Result]) -> None:
    """Write down after which time those with a goal were there."""
    name, sign = ("primal", 1) if case.primal else ("dual", -1)
    found = {result.competitor: [one[name] for one in result.findings] for result in results}
    for one, result in zip(competitors, results, strict=True):
        if one.goal and found.get(one.goal) and result.findings:
            goal, end = min(sign * value for value in found[one.goal]), max(sign * value for value in found[one.name])
            for record in result.records:
                record["reached_s"] = reached(record, sign, goal, end)


def reached(record: dict[str, Any], sign: int, goal: float, end: float) -> float | None:
    """Return the seconds of a fit after which its objective was as good as the goal, None if it never was.

    The recorded times begin after the fit did: what is missing is counted as if all of it had come before.

    Parameters
    ----------
    record : dict
        Seconds of the fit and the curve of the objective over time.
    sign : int
        1 if the objective falls, -1 if it rises.
    goal, end : float
        The objective to reach, and what the judge found for the fit's, both times `sign`.
    """
    allowed = goal + SAME * abs(goal)
    times, objectives = np.array(record["curve"]["time"]), sign * np.array(record["curve"]["objective"])
    there = np.flatnonzero(objectives <= allowed)
    if end > allowed:
        return None
    return record["seconds"] - float(times[-1] - times[there[0]]) if len(there) else record["seconds"]
