"""Cases of kernel machines of many samples."""

from functools import partial

from bench.harness.suite import Case
from bench.millions import recipes
from bench.millions.parameters import MillionsParameters

__all__ = ["MILLIONS_CASES"]

_SUITE = ("millions",)
_MOST = (256, 512, 1024, 2048, 4096)
_VESSELS = MillionsParameters(10, 1 / (75 * 40**2))
_LARGE_VESSELS = MillionsParameters(10, 1 / (243 * 40**2))
_MNIST = MillionsParameters(10, 0.02 / 255**2, _MOST)


def _odd_even(n: int) -> recipes.Blocks:
    found = recipes.deformed_digits(n)
    blocks = ((X, y % 2) for X, y in found.blocks)
    return found._replace(blocks=blocks, y_test=found.y_test % 2)


MILLIONS_CASES = [
    Case(
        "digits-odd-even-1500",
        _SUITE,
        partial(_odd_even, 1500),
        MillionsParameters(10, 0.2 / 255**2, (32, 128), (500, 1500), (20,), memory="100MB"),
        quick=True,
    ),
    Case("cod-rna-271617", _SUITE, recipes.cod_rna, MillionsParameters(10, 0.5, _MOST)),
    Case("kdd-494021", _SUITE, recipes.kdd, MillionsParameters(10, 0.02)),
    *[
        Case(f"vessels-75-{n}", _SUITE, partial(recipes.vessels, n, 5), _VESSELS, series="vessels, 75 bytes")
        for n in (100_000, 250_000, 1_000_000, 3_600_000)
    ],
    *[
        Case(f"vessels-243-{n}", _SUITE, partial(recipes.vessels, n, 9), _LARGE_VESSELS, series="vessels, 243 bytes")
        for n in (1_000_000, 3_600_000)
    ],
    *[
        Case(f"mnist-deformed-{n}", _SUITE, partial(recipes.deformed_mnist, n), _MNIST, series="deformed MNIST")
        for n in (1_000_000, 8_000_000)
    ],
]
