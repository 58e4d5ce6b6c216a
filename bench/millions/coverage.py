"""How often does an estimated bound hold? `python -m bench.millions.coverage`, from the root.

`exact_bounds_` estimates its lower bound from a sample of kernel values where there are too many. It claims to hold for
999 of 1,000 samples. Here the problems are so small that all values are known, and `exact_bounds` is made to estimate
nevertheless, with as few rows as it ever draws, from many seeds after the same fit. The table counts how often the
bound is below

    the exact optimum, which the referee finds in float64 by code of its own;
    the bound of the same dual variables that is computed from all values. This is what the interval is for: the
    optimum may be far above both.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, make_moons

from bench.harness.data import Data
from bench.millions.parameters import MillionsParameters
from bench.millions.referee import exact_optimum
from fastsvm import NystroemSVC
from fastsvm.estimators.nystroem import exact_bounds, nystroem_machine

__all__ = ["Counted", "counted", "problems"]

_LANDMARKS = (10, 40, 160)
_ROUNDING = 1e-9  # relative


class Counted(NamedTuple):
    """Bounds of one problem with some landmarks.

    Attributes
    ----------
    n_estimates : int
        Estimated bounds.
    below_optimum, below_rigorous : int
        How many of them are below the exact optimum, and below the bound from all kernel values.
    ratio : float
        Their mean, as a share of the bound from all kernel values.
    rigorous : float
        That bound, as a share of the exact optimum.
    """

    n_estimates: int
    below_optimum: int
    below_rigorous: int
    ratio: float
    rigorous: float


def problems() -> Iterator[tuple[str, MillionsParameters, np.ndarray, np.ndarray]]:
    """Yield names, parameters, samples and labels."""
    X, y = make_moons(800, noise=0.5, random_state=0)
    yield "moons that overlap", MillionsParameters(1.0, 2.0), X, y
    yield "moons, larger C", MillionsParameters(10.0, 2.0), X, y
    X, y = load_digits(return_X_y=True)
    yield "digits, odd or even", MillionsParameters(1.0, 0.002), X[:800], y[:800] % 2
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy((800, 3))  # a few rows are far from all others
    yield "heavy tails", MillionsParameters(3.0, 0.5), X, (X.sum(axis=1) + rng.normal(size=800) > 0).astype(int)


@contextmanager
def _estimating(seeds: range) -> Iterator[list[float]]:
    """Let fits estimate the lower bound from each seed, though all values are known; yield those bounds.

    The last of them is the one from all values.
    """
    found: list[float] = []
    known = exact_bounds._affordable, exact_bounds._MOST_PASSES, nystroem_machine.exact_bounds

    def repeated(*given: Any) -> Any:
        *before, _, rng = given
        for seed in seeds:
            one = exact_bounds.exact_bounds(*before, "auto", np.random.RandomState(seed))
            if one.is_rigorous:
                raise ValueError("a bound was to be estimated, and all values were computed")
            found.append(one.lower)
        one = exact_bounds.exact_bounds(*before, "rigorous", rng)
        found.append(one.lower)
        return one

    exact_bounds._affordable, exact_bounds._MOST_PASSES, nystroem_machine.exact_bounds = (lambda *_: 0), 0, repeated
    try:
        yield found
    finally:
        exact_bounds._affordable, exact_bounds._MOST_PASSES, nystroem_machine.exact_bounds = known


def counted(
    parameters: MillionsParameters, X: np.ndarray, y: np.ndarray, n_landmarks: int, seeds: range, optimum: float
) -> Counted:
    """Estimate with each seed, and count which bounds hold.

    Parameters
    ----------
    parameters : MillionsParameters
        C and gamma.
    X, y : ndarray
        Samples and labels.
    n_landmarks : int
        Number of landmarks.
    seeds : range
        Seeds of the samples from which bounds are estimated.
    optimum : float
        Upper bound of the exact optimum.
    """
    given = {"C": parameters.C, "gamma": parameters.gamma, "n_components": n_landmarks, "random_state": 0}
    with _estimating(seeds) as found:
        NystroemSVC(**given).fit(X, y)
    *each, rigorous = found
    below = [sum(one <= limit * (1 + _ROUNDING) for one in each) for limit in (optimum, rigorous)]
    return Counted(len(each), *below, float(np.mean(each)) / rigorous, rigorous / optimum)


def main() -> None:
    """Print a line for each problem and number of landmarks."""
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--seeds", type=int, default=1000, help="estimates for each line (1000)")
    seeds = range(reader.parse_args().seeds)
    names = "problem", "landmarks", "estimates", "below optimum", "below rigorous", "ratio", "share"
    print("{:22}{:>10}{:>10}{:>15}{:>16}{:>8}{:>8}".format(*names))
    for name, parameters, X, y in problems():
        optimum = exact_optimum(parameters, Data(X, y, X[:0], y[:0]))[1]
        for m in _LANDMARKS:
            n, *below, ratio, share = counted(parameters, X, y, m, seeds, optimum)
            print(f"{name:22}{m:>10}{n:>10}{below[0]:>15}{below[1]:>16}{ratio:>8.3f}{share:>8.3f}", flush=True)


if __name__ == "__main__":
    main()
