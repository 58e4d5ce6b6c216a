"""A check of a solver: which method is missing."""

from fastsvm.solvers.outer_loop import Solver, Steps


def check_solver(kind: type) -> None:
    """Raise ValueError, which names it, if a class lacks a method of the protocol in `outer_loop.py`."""
    for name in (*vars(Solver), *vars(Steps)):
        if not name.startswith("_") and not callable(getattr(kind, name, None)):
            raise ValueError(f"{kind.__name__} has no {name}: see `Solver` in fastsvm/solvers/outer_loop.py.")
