"""Every solver has the methods of the protocol, and the check names the one that another lacks."""

import importlib
import inspect
import pkgutil

import pytest

from fastsvm import solvers
from fastsvm.solvers.outer_loop import check_solver

MODULES = [importlib.import_module(each.name) for each in pkgutil.walk_packages(solvers.__path__, "fastsvm.solvers.")]
SOLVERS = {
    kind
    for module in MODULES
    for kind in vars(module).values()
    if inspect.isclass(kind) and kind.__module__ == module.__name__ and hasattr(kind, "finish")
    if not inspect.isabstract(kind)
}


@pytest.mark.parametrize("kind", sorted(SOLVERS, key=str))
def test_every_solver(kind):
    check_solver(kind)


def test_what_is_missing_is_named():
    class Own:
        def init(self, start=None):
            return start

    with pytest.raises(ValueError, match="Own has no finish"):
        check_solver(Own)
