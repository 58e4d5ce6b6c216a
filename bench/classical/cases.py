"""Cases of textbook methods. Their names begin with "coordinate", "loops" or "primal"."""

from functools import partial

from bench.classical import recipes
from bench.classical.parameters import ClassicalParameters
from bench.harness.suite import Case

__all__ = ["CLASSICAL_CASES"]

_SUITE = ("classical",)
_DUAL_FACTORS, _PRIMAL_FACTORS = (1, 2, 4, 8), (0.1, 0.2, 0.5, 1)  # the best lies inside
_DUAL_WIDTH, _PRIMAL_WIDTH = 0.5, 0.7  # of the Gaussian kernel on moons, as published
_FEW = 500  # up to this size the dual loop also runs for longer
_DONUT = {"kernel": "poly", "degree": 2, "coef0": 1.0}


def _scaled(published: float, n: int, factors: tuple[float, ...]) -> tuple[float, ...]:
    """Return rates for n moons. The eigenvalues of the kernel matrix grow with n, so the rates must shrink."""
    return tuple(factor * published * 400 / n for factor in factors)


def _moons(n: int, dual_rates: tuple[float, ...], primal_rates: tuple[float, ...], quick: bool = False) -> list[Case]:
    data = partial(recipes.moons, n)
    dual = ClassicalParameters("dual loop", gamma=_DUAL_WIDTH**-2, rates=dual_rates, long_loop=n <= _FEW)
    primal = ClassicalParameters("primal loop", gamma=_PRIMAL_WIDTH**-2, rates=primal_rates)
    return [
        Case(f"loops-moons-{n}-dual", _SUITE, data, dual, quick),
        Case(f"loops-moons-{n}-primal", _SUITE, data, primal, quick),
    ]


def _large_moons(n: int) -> list[Case]:
    return _moons(n, _scaled(1e-2, n, _DUAL_FACTORS), _scaled(1e-3, n, _PRIMAL_FACTORS))


_COORDINATE = partial(ClassicalParameters, "coordinate", gamma=0.05)
_SQUARED = partial(ClassicalParameters, "squared")
_DONUT_DUAL = ClassicalParameters("dual loop", **_DONUT, rates=(1e-3,), long_loop=True)
_DONUT_PRIMAL = ClassicalParameters("primal loop", **_DONUT, rates=(1e-5,))

CLASSICAL_CASES = [
    Case("coordinate-digits-C1", _SUITE, recipes.digits, _COORDINATE(), quick=True),
    Case("coordinate-a9a-C1", _SUITE, recipes.a9a, _COORDINATE()),
    Case("coordinate-a9a-C100", _SUITE, recipes.a9a, _COORDINATE(C=100.0)),
    *_moons(400, (1e-2,), (1e-3,), quick=True),
    Case("loops-donut-500-dual", _SUITE, recipes.donut, _DONUT_DUAL),
    Case("loops-donut-500-primal", _SUITE, recipes.donut, _DONUT_PRIMAL),
    *_large_moons(2000),
    *_large_moons(5000),
    Case("primal-digits-squared", _SUITE, recipes.digits_pair, _SQUARED(gamma=0.1), quick=True),
    Case("primal-mnist-5000-squared", _SUITE, partial(recipes.mnist_pair, 5000), _SQUARED(gamma=0.02)),
]
