"""On which data, with which parameters? Tables are standardised, images are bytes."""

from functools import partial

from bench import made_up_tables, recipes
from bench.harness.data import Data
from bench.harness.suite import Case
from bench.machines.parameters import MachineParameters

__all__ = ["MACHINE_CASES"]

_SUITE, _TABLE = ("machines",), 20_000
_PIXELS = 0.02 / 255**2
_NUS = 0.01, 0.1, 0.5


def images(n: int) -> Data:
    """Return n images, and the digits as targets."""
    data = recipes.mnist()
    return data._replace(X=data.X[:n], y=data.y[:n].astype(float), y_test=data.y_test.astype(float))


def _case(name: str, recipe, machine: str, gamma: float, *, quick: bool = False, **given) -> Case:
    return Case(name, _SUITE, recipe, MachineParameters(machine, gamma, **given), quick=quick)


_HOUSES = partial(made_up_tables.houses, _TABLE * 5 // 4)
_SEQUENCES, _IMAGES = partial(recipes.cod_rna_test, 100_000), partial(images, 60_000)

MACHINE_CASES = [
    _case("svr-houses", _HOUSES, "svr", 1 / 8),
    _case("svr-friedman", partial(made_up_tables.friedman, _TABLE * 5 // 4, real=True), "svr", 1 / 20),
    _case("svr-one-hot", partial(made_up_tables.one_hot, _TABLE * 5 // 4, real=True), "svr", 1 / 54),
    _case("svr-images", partial(images, _TABLE), "svr", _PIXELS),
    _case("nu-svr-houses", _HOUSES, "nu-svr", 1 / 8),
    _case("nu-svc-cod-rna", partial(recipes.cod_rna, 10_000), "nu-svc", 1 / 8, nu=0.1),
    *[_case(f"one-class-cod-rna-nu{nu:g}", _SEQUENCES, "one-class", 1 / 8, nu=nu) for nu in _NUS],
    *[_case(f"one-class-images-nu{nu:g}", _IMAGES, "one-class", _PIXELS, nu=nu) for nu in _NUS],
    _case("svr-digits", recipes.digits, "svr", 0.1, quick=True),
    _case("one-class-digits", recipes.digits, "one-class", 0.1, quick=True),
]
