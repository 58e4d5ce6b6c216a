"""Which cases are there, and who solves them? The first of each is the one that the others' times are relative to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.classical import problems
from bench.classical.competitors import HARD, Competitor, libsvm, ours
from bench.classical.problems import Problem
from bench.classical.tutorials import against_dual_loop, against_primal_loop

__all__ = ["CASES", "GROUPS", "Case"]

_TIGHT = 1e-6
_TIGHT_GAP = 1e-5
_MANY_ROWS = (4500,)  # more than there are landmarks, by far
_DUAL_FACTORS, _PRIMAL_FACTORS = (1, 2, 4, 8), (0.1, 0.2, 0.5, 1)  # the best lies inside


@dataclass(frozen=True)
class Case:
    """A problem, and who solves it; `primal` tells which objective is shown."""

    group: str
    name: str
    problem: Callable[[], Problem]
    competitors: Callable[[Problem], list[Competitor]]
    primal: bool = False
    quick: bool = False


def _coordinate(problem: Problem) -> list[Competitor]:
    found = [
        Competitor(
            f"coordinate, {order}",
            ours(problem, solver="coordinate", selection=order, random_state=0),
            offset=False,
            most_gap=1e-3,
        )
        for order in ("cyclic", "random")
    ]
    return [*found, Competitor("smo", ours(problem))]


def _squared(problem: Problem) -> list[Competitor]:
    K, given = problem.matrix(), {"kernel": "precomputed", "C": HARD, "tol": _TIGHT}
    primal = ours(problem, solver="primal", loss="squared_hinge", tol=_TIGHT)
    return [
        Competitor("primal", primal, most_gap=_TIGHT_GAP, against="smo, K + I/2C"),
        Competitor("smo, K + I/2C", ours(problem, **given), K, most_gap=_TIGHT_GAP, certified=False),
        Competitor("sklearn, K + I/2C", libsvm(problem, **given), K, most_gap=_TIGHT_GAP),
    ]


def _hinge(problem: Problem) -> list[Competitor]:
    return [
        Competitor("primal", ours(problem, solver="primal"), against="smo"),
        Competitor("smo", ours(problem)),
        Competitor("sklearn", libsvm(problem)),
    ]


def _landmarks(n_components: int, problem: Problem) -> list[Competitor]:
    few = ours(problem, solver="primal", n_components=n_components)
    name = f"primal, {n_components} of {len(problem.data.y)}"
    return [
        Competitor(name, few, feasible=False, certified=False, against="smo", warm_rows=_MANY_ROWS),
        Competitor("smo", ours(problem)),
    ]


def _of_dual_loop(name: str, problem: Callable[[], Problem], rates: list[float], quick: bool = False) -> Case:
    return Case("loops", f"{name}-dual", problem, partial(against_dual_loop, rates), quick=quick)


def _of_primal_loop(name: str, problem: Callable[[], Problem], rates: list[float], quick: bool = False) -> Case:
    return Case("loops", f"{name}-primal", problem, partial(against_primal_loop, rates), primal=True, quick=quick)


def _scaled(published: float, n: int, factors: tuple[float, ...]) -> list[float]:
    """Return rates for moons of n rows: eigenvalues of the kernel matrix, hence rates, go with the rows."""
    return [factor * published * 400 / n for factor in factors]


CASES = [
    Case("coordinate", "digits-C1", partial(problems.digits, 1.0), _coordinate, quick=True),
    Case("coordinate", "a9a-C1", partial(problems.a9a, 1.0), _coordinate),
    Case("coordinate", "a9a-C100", partial(problems.a9a, 100.0), _coordinate),
    _of_dual_loop("moons-400", partial(problems.moons, 400, 0.5), [1e-2], quick=True),
    _of_primal_loop("moons-400", partial(problems.moons, 400, 0.7), [1e-3], quick=True),
    _of_dual_loop("donut-500", problems.donut, [1e-3]),
    _of_primal_loop("donut-500", problems.donut, [1e-5]),
    _of_dual_loop("moons-2000", partial(problems.moons, 2000, 0.5), _scaled(1e-2, 2000, _DUAL_FACTORS)),
    _of_primal_loop("moons-2000", partial(problems.moons, 2000, 0.7), _scaled(1e-3, 2000, _PRIMAL_FACTORS)),
    _of_dual_loop("moons-5000", partial(problems.moons, 5000, 0.5), _scaled(1e-2, 5000, _DUAL_FACTORS)),
    _of_primal_loop("moons-5000", partial(problems.moons, 5000, 0.7), _scaled(1e-3, 5000, _PRIMAL_FACTORS)),
    Case("primal", "digits-squared", partial(problems.digits_pair, True), _squared, primal=True, quick=True),
    Case("primal", "digits-hinge", partial(problems.digits_pair, False), _hinge, primal=True, quick=True),
    Case("primal", "digits-few", partial(problems.digits, 10.0), partial(_landmarks, 100), primal=True, quick=True),
    Case("primal", "mnist-5000-squared", partial(problems.mnist_pair, 5000, True), _squared, primal=True),
    Case("primal", "mnist-5000-hinge", partial(problems.mnist_pair, 5000, False), _hinge, primal=True),
    Case("primal", "mnist-60000-few", partial(problems.mnist, 10.0), partial(_landmarks, 500), primal=True),
]
GROUPS = tuple(dict.fromkeys(case.group for case in CASES))
