"""Who solves a textbook problem, and what is expected of the answer?

The times of a case are relative to the first competitor that takes part in it.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.classical.parameters import ClassicalParameters
from bench.harness.competitor import Competitor, Resources

__all__ = ["CLASSICAL_COMPETITORS", "EPOCHS", "ClassicalCompetitor", "classical_competitor"]

EPOCHS = 500
"""Epochs of the loops of tutorials."""
_LONGER = 20  # the long loop has this many times as many epochs
_HARD = 1e9  # C of the dual problem of the squared hinge, whose multipliers have no upper bound
_TIGHT, _TIGHT_GAP = 1e-6, 1e-5
_DUAL_LOOP, _PRIMAL_LOOP = "numpy dual loop", "numpy primal loop"


@dataclass(frozen=True)
class ClassicalCompetitor(Competitor):
    """A way to solve a textbook problem.

    Attributes
    ----------
    groups : tuple of str
        Groups of `ClassicalParameters` in which it takes part.
    precomputed : bool
        Whether it is given the kernel matrix, which is computed outside the clock.
    has_intercept : bool
        Whether the problem that it solves has an intercept.
    most_gap : float or None
        Upper bound of its relative duality gap.
    feasible : bool
        Whether its coefficients should satisfy the constraints of the dual problem.
    certified : bool
        Whether its `duality_gap_` is that of the problem.
    against : str or None
        Competitor whose dual objective its gap is measured to; None for its own.
    stops : bool
        Whether it stops by itself. If so, warnings count.
    goal : str or None
        Competitor whose objective it must reach. The time until then is measured too.
    is_long : bool
        Whether it takes part only where `long_loop` is set.
    warm_up_rows : tuple of int
        Numbers of samples of the warm-up fits. Large problems may use other code than small ones.
    """

    groups: tuple[str, ...] = ()
    precomputed: bool = False
    has_intercept: bool = True
    most_gap: float | None = None
    feasible: bool = True
    certified: bool = True
    against: str | None = None
    stops: bool = True
    goal: str | None = None
    is_long: bool = False
    warm_up_rows: tuple[int, ...] = (300, 4500)

    def takes_part(self, parameters: ClassicalParameters) -> bool:
        return parameters.group in self.groups and (parameters.long_loop or not self.is_long)


def classical_competitor(name: str) -> ClassicalCompetitor:
    """Return the competitor of that name."""
    return next(one for one in CLASSICAL_COMPETITORS if one.name == name)


def _fastsvm(parameters: ClassicalParameters, resources: Resources, **given: Any) -> Any:
    from fastsvm import SVC

    return SVC(**{**parameters.estimator, "memory": resources.memory_mb * 2**20, **given})


def _sklearn(parameters: ClassicalParameters, resources: Resources, **given: Any) -> Any:
    from sklearn.svm import SVC

    return SVC(**{**parameters.estimator, "cache_size": resources.memory_mb, **given})


def _exact(solver: str, parameters: ClassicalParameters, resources: Resources) -> Any:
    return _fastsvm(parameters, resources, solver=solver, tol=parameters.tol)


def _stepped(solver: str, parameters: ClassicalParameters, resources: Resources) -> Any:
    return _fastsvm(parameters, resources, solver=solver, learning_rate=parameters.rate, max_iter=EPOCHS)


def _dual_loop(parameters: ClassicalParameters, resources: Resources, factor: int = 1) -> Any:
    from bench.classical.loops import DualLoop, Recipe, kernel_of

    return DualLoop(kernel_of(parameters), Recipe(parameters.rate, factor * EPOCHS, parameters.C, factor == 1))


def _primal_loop(parameters: ClassicalParameters, resources: Resources) -> Any:
    from bench.classical.loops import PrimalLoop, Recipe, kernel_of

    return PrimalLoop(kernel_of(parameters), Recipe(parameters.rate, EPOCHS, parameters.C))


def _one(name: str, module: str, build: Any, *groups: str, **given: Any) -> ClassicalCompetitor:
    return ClassicalCompetitor(name, module, ("classical",), build, groups=groups, **given)


_COORDINATE = {"solver": "coordinate", "random_state": 0}
_CYCLIC, _RANDOM = (partial(_fastsvm, **_COORDINATE, selection=order) for order in ("cyclic", "random"))
_SQUARED = partial(_fastsvm, solver="primal", loss="squared_hinge", tol=_TIGHT)
_SHIFTED = {"kernel": "precomputed", "C": _HARD, "tol": _TIGHT}
_OF_DUAL_LOOP = {"has_intercept": False, "stops": False}
_OF_PRIMAL_LOOP = {"feasible": False, "certified": False, "stops": False, "against": "smo, exact"}
_FEW = {"warm_up_rows": (300,)}  # loops do not compile

CLASSICAL_COMPETITORS = [
    _one("coordinate, cyclic", "fastsvm", _CYCLIC, "coordinate", has_intercept=False, most_gap=1e-3),
    _one("coordinate, random", "fastsvm", _RANDOM, "coordinate", has_intercept=False, most_gap=1e-3),
    _one("smo", "fastsvm", _fastsvm, "coordinate"),
    _one("primal, squared hinge", "fastsvm", _SQUARED, "squared", most_gap=_TIGHT_GAP, against="smo, shifted matrix"),
    _one(
        "smo, shifted matrix", "fastsvm", partial(_fastsvm, **_SHIFTED), "squared", precomputed=True,
        most_gap=_TIGHT_GAP, certified=False,
    ),
    _one(
        "sklearn, shifted matrix", "sklearn", partial(_sklearn, **_SHIFTED), "squared", precomputed=True,
        most_gap=_TIGHT_GAP,
    ),
    _one(
        "coordinate, exact", "fastsvm", partial(_exact, "coordinate"), "dual loop", has_intercept=False, goal=_DUAL_LOOP
    ),
    _one("coordinate, loop's rate", "fastsvm", partial(_stepped, "coordinate"), "dual loop", **_OF_DUAL_LOOP),
    _one(_DUAL_LOOP, "numpy", _dual_loop, "dual loop", **_OF_DUAL_LOOP, **_FEW),
    _one(
        f"{_DUAL_LOOP}, {_LONGER} times as long", "numpy", partial(_dual_loop, factor=_LONGER), "dual loop",
        is_long=True, **_OF_DUAL_LOOP, **_FEW,
    ),
    _one("smo, exact", "fastsvm", partial(_exact, "smo"), "primal loop", goal=_PRIMAL_LOOP),
    _one("primal, loop's rate", "fastsvm", partial(_stepped, "primal"), "primal loop", **_OF_PRIMAL_LOOP),
    _one(_PRIMAL_LOOP, "numpy", _primal_loop, "primal loop", **_OF_PRIMAL_LOOP, **_FEW),
]  # fmt: skip
