"""From an estimator's `solver` and what goes with it to the solver of a two-class problem."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.documentation import parametrised
from fastsvm.kernel_matrix.memory_plan import Plan
from fastsvm.kernel_matrix.rows import ProblemRows
from fastsvm.kernels import Kernel
from fastsvm.solvers.kernel_dual.coordinate_ascent import Coordinate
from fastsvm.solvers.kernel_dual.problem import KernelProblem
from fastsvm.solvers.kernel_dual.smo import SMO
from fastsvm.solvers.kernel_primal.newton import Primal
from fastsvm.solvers.kernel_primal.subgradient_descent import PrimalDescent
from fastsvm.solvers.outer_loop import Solver
from fastsvm.tuning import KernelTuning

_DEFAULTS = {"loss": "hinge", "fit_intercept": True, "learning_rate": None, "selection": "cyclic"}
# They are LIBSVM's limit of steps for small problems, and for large ones its steps per sample.
_LEAST_PAIR_STEPS = 10_000_000
_PAIR_STEPS_PER_SAMPLE = 100
_COORDINATE_STEPS = 20  # So many steps of one coordinate are about as expensive as one pair step.
_NEWTON_STEPS, _RATE_STEPS = 2_000, 10_000


KernelLike = str | Kernel | Callable
"""What an estimator's `kernel` may be."""


@parametrised
class KernelParameters:
    """The parameters of all estimators with a kernel."""

    _: KW_ONLY
    kernel: KernelLike = "rbf"
    degree: int = 3
    gamma: str | float = "scale"
    coef0: float = 0.0
    standardize: bool = False


class MachineParameters(KernelParameters):
    """The parameters of kernel machines; those with a value here are constants of machines that have one solver."""

    C: float = 1.0
    solver: str = "smo"
    loss: str = "hinge"
    fit_intercept: bool = True
    learning_rate: float | None = None
    selection: str = "cyclic"
    class_weight: dict | str | None = None
    random_state: int | np.random.RandomState | None = None
    tol: float
    max_iter: int
    max_time: float | None
    cache_size: float | None


class Resources(NamedTuple):
    """What a solver may use; `plan` has the sizes of working set and systems.

    Each problem, by its `number`, draws its own random numbers. Long steps are cut short at `deadline`, a moment of
    time.perf_counter.
    """

    plan: Plan
    pool: Pool
    number: int
    deadline: float
    tuning: KernelTuning


SolverOf = Callable[[KernelProblem, ProblemRows, Resources], Solver]
"""Makes the solver of a problem."""


class SolverEntry(NamedTuple):
    """A solver that the parameter `solver` of `SVC` may name."""

    # It gets estimator, problem, rows, means and generator.
    make: Callable[[MachineParameters, KernelProblem, ProblemRows, Resources, np.random.Generator], Solver]
    parameters: tuple[str, ...] = ()  # Of the parameters of `SVC` that only some solvers have, it has these.
    steps: str = "steps"  # Pictures call its steps so.
    is_dual: bool = True  # It solves the dual problem, in which multipliers are bounded by C.
    # It maps the number of samples to the limit of steps if the user sets none.
    most_steps: Callable[[int], int] = lambda n_samples: _NEWTON_STEPS


def check_solver(estimator: MachineParameters) -> None:
    """Raise ValueError for a parameter that the solver does not have."""
    for name, default in _DEFAULTS.items():
        value = getattr(estimator, name)
        if value != default and name not in SOLVERS[estimator.solver].parameters:
            solvers = [key for key, entry in SOLVERS.items() if name in entry.parameters]
            needed = " or ".join(f"solver={solver!r}" for solver in solvers)
            raise ValueError(f"{name}={value!r} needs {needed}; the solver is {estimator.solver!r}.")
    if estimator.learning_rate is not None and estimator.selection != "cyclic":
        raise ValueError(
            f"selection={estimator.selection!r} is an order of multipliers, which with learning_rate="
            f"{estimator.learning_rate} all move at once. Leave out one of them."
        )
    if estimator.solver == "primal" and estimator.loss == "hinge" and estimator.learning_rate is None:
        raise ValueError(
            "solver='primal' takes Newton steps, which need a smooth loss: pass loss='squared_hinge'. For loss='hinge' "
            "take solver='smo', or solver='coordinate' without an intercept; both are exact. With a learning_rate, "
            "solver='primal' descends along subgradients of loss='hinge'."
        )


def is_dual(estimator: MachineParameters) -> bool:
    """Return whether multipliers are sought that stand for rows by their sum, and bounded by C."""
    return SOLVERS[estimator.solver].is_dual and estimator.learning_rate is None


def most_steps(estimator: MachineParameters, n_rows: int) -> int:
    """Return how many steps a two-class problem may take."""
    if estimator.max_iter >= 0:
        return estimator.max_iter
    if estimator.learning_rate is not None:
        return _RATE_STEPS
    return SOLVERS[estimator.solver].most_steps(n_rows)


def solver_of(estimator: MachineParameters) -> SolverOf:
    """Return what makes the solvers of a fit."""
    seed = 0 if estimator.random_state is None else check_random_state(estimator.random_state).randint(2**31)
    make = SOLVERS[estimator.solver].make

    def of(problem: KernelProblem, rows: ProblemRows, means: Resources) -> Solver:
        return make(estimator, problem, rows, means, np.random.default_rng([seed, means.number]))

    return of


def _smo(
    estimator: MachineParameters, problem: KernelProblem, rows: ProblemRows, means: Resources, rng: np.random.Generator
) -> Solver:
    sizes = means.plan.working_set, means.pool, means.plan.newton_rows
    return SMO(problem, rows, estimator.tol, *sizes, deadline=means.deadline, tuning=means.tuning)


def _coordinate(
    estimator: MachineParameters, problem: KernelProblem, rows: ProblemRows, means: Resources, rng: np.random.Generator
) -> Solver:
    exact = estimator.learning_rate is None
    sizes = means.plan.working_set, means.pool, means.plan.newton_rows if exact else 0
    return Coordinate(
        problem,
        rows,
        estimator.tol,
        *sizes,
        rng=rng if estimator.selection == "random" else None,
        fit_intercept=bool(estimator.fit_intercept),
        rate=estimator.learning_rate,
        deadline=means.deadline,
        tuning=means.tuning,
    )


def _primal(
    estimator: MachineParameters, problem: KernelProblem, rows: ProblemRows, means: Resources, rng: np.random.Generator
) -> Solver:
    fit_intercept, common = bool(estimator.fit_intercept), (problem, rows, estimator.tol, means.pool)
    if estimator.learning_rate is not None:
        squared = estimator.loss == "squared_hinge"
        return PrimalDescent(*common, rate=estimator.learning_rate, squared=squared, fit_intercept=fit_intercept)
    return Primal(*common, fit_intercept, means.plan.newton_rows, means.deadline)


def _pair_steps(n_samples: int) -> int:
    return max(_LEAST_PAIR_STEPS, _PAIR_STEPS_PER_SAMPLE * n_samples)


SOLVERS = {
    "smo": SolverEntry(_smo, steps="pair steps", most_steps=_pair_steps),
    "coordinate": SolverEntry(
        _coordinate,
        parameters=("fit_intercept", "learning_rate", "selection"),
        steps="coordinate steps",
        most_steps=lambda n_samples: _COORDINATE_STEPS * _pair_steps(n_samples),
    ),
    "primal": SolverEntry(
        _primal,
        parameters=("loss", "fit_intercept", "learning_rate"),
        steps="Newton steps",
        is_dual=False,
    ),
}
"""Solvers of kernel machines by the names that the parameter `solver` takes. A solver is added here alone."""
