"""Bounds of the optimum of the kernel problem that a machine of landmarks approximates.

Above
    The model is a point of the kernel problem: ½ cᵀ K_MM c + ½ b² plus its losses, computed in float64, is at least the
    optimum. b is the weight of the constant feature, which is penalised: the kernel is K + s² with its value s.

Below
    The dual variables β of the machine are feasible for the kernel problem too, which has the same constraints. So is
    t β for 0 ≤ t ≤ 1, and - Σ_i c_i ℓ*(-t β_i / c_i) - ½ t² βᵀ (K + s²) β is at most the optimum. K is at least its
    approximation, so that t < 1 is best. The conjugates are quadratic in t between 0 and 1, so the best t is known.
    Then passes of coordinate ascent raise the bound (`exact_ascent`), as many as are affordable and add 1 % each.

Cost
    A kernel value for each row and landmark, and for each pair of rows with β ≠ 0. Where those are too many, βᵀ K β is
    estimated. Rows i are drawn with probabilities p_i, and β_i ((K β)_i - φ_iᵀ v) / p_i is averaged, with
    v = Σ_j β_j φ_j. To this the sum of all β_i φ_iᵀ v, which is ‖v‖², is added. For features φ the differences are
    small; they are at most r_i = √(k(x_i, x_i) - ‖φ_i‖²) times a constant. So half of the draws are in proportion to
    |β_i| r_i, or a few rows that the features lack would be missed; the other half to |β_i|, as are all of kernels with
    no bound. The upper end of an interval of 3.3 standard errors is taken for βᵀ K β. The bound is then no longer
    certain, but it holds for 999 of 1,000 samples.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from fastsvm._compiled.threads import spans
from fastsvm.estimators.nystroem.dual_expansion import DualExpansion, Expansions, Limits, Machine, added
from fastsvm.estimators.nystroem.exact_ascent import ascend

__all__ = ["ExactBounds", "exact_bounds"]

_MOST_PASSES, _GAIN = 20, 0.01  # of ascent, and the least share of the bound that one must add for another
_MOST_VALUES = 1 << 30  # kernel values of pairs of rows, beside as many as twice the features took
_LEAST_VALUES, _TIMES_FEATURES = 1 << 27, 8  # some tenths of a second; as many take as long as the rest of a fit
_LEAST_SAMPLE = 256
_ERRORS = 3.3  # standard errors


class ExactBounds(NamedTuple):
    """Bounds of the optimum, summed over the problems.

    Attributes
    ----------
    lower, upper : float
        The bounds.
    is_rigorous : bool
        Whether the lower bound is certain; else it is estimated from a sample.
    """

    lower: float
    upper: float
    is_rigorous: bool

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes of an estimator."""
        kind = "rigorous" if self.is_rigorous else "estimated"
        return {"exact_bounds_": (self.lower, self.upper), "exact_bounds_kind_": kind}


def exact_bounds(
    expansions: Expansions, machine: Machine, square: np.ndarray, wanted: str, rng: np.random.RandomState
) -> ExactBounds:
    """Return bounds of the optimum of the kernel problem.

    Parameters
    ----------
    expansions : Expansions
        Of the rows of all places.
    machine : Machine
        The solution.
    square : ndarray of float64, shape (n_landmarks, n_landmarks)
        K_MM.
    wanted : {"auto", "rigorous"}
        Whether the lower bound may be estimated.
    rng : RandomState
        Source of random numbers, for a sample.
    """
    sizes = np.einsum("cm,mk,ck->c", machine.coef, square, machine.coef, optimize=True) + np.square(machine.bias)
    upper = machine.by_problem(added(_each(expansions, DualExpansion.losses)) + sizes / 2)
    support = [expansions.at(number, DualExpansion.support) for number in range(len(expansions))]
    counts, limits = _each(expansions, DualExpansion.count, support), _limits(expansions)
    if not any(counts):  # all dual variables are 0, and so is their objective
        return ExactBounds(0.0, float(upper.sum()), is_rigorous=True)
    n, values = sum(counts), _affordable(expansions.n_rows * len(square), wanted)
    most = max(_LEAST_SAMPLE, min(values // n, limits.n_read))
    is_rigorous = wanted == "rigorous" or most >= n
    if most >= n:  # passes would read a file again and again
        expansions, support = expansions.kept(support)
        limits = _limits(expansions)
    known = _Sums(expansions, support, counts, limits, machine.constant**2)
    form = known.form() if is_rigorous else known.estimated_form(most, rng)
    shares, lower = _best_shares(known, machine, machine.by_problem(form))
    if is_rigorous and not machine.loss.of_classes:
        each = enumerate(support)
        known.support[:] = [expansions.at(number, DualExpansion.scaled, own, shares) for number, own in each]
        form *= np.square(shares)
        for _ in range(min(_MOST_PASSES, values // n**2 - 1)):
            form += ascend(expansions, known.support, limits.n_swept, counts, known.square)
            before, lower = lower, _best_shares(known, machine, form)[1]
            if lower.sum() <= (1 + _GAIN) * before.sum():
                break
    return ExactBounds(float(lower.sum()), float(upper.sum()), is_rigorous)


def _affordable(n_known: int, wanted: str) -> int:
    """Return how many kernel values of pairs of rows may be computed; the features took `n_known`."""
    most = _MOST_VALUES + 2 * n_known
    return most if wanted == "rigorous" else min(most, max(_LEAST_VALUES, _TIMES_FEATURES * n_known))


def _each(expansions: Expansions, method: Any, *given: Any) -> list[Any]:
    """Return what the expansions of all places answer; of what is given in a list, each is given its own."""
    own = [[one[number] if isinstance(one, list) else one for one in given] for number in range(len(expansions))]
    return expansions.told([expansions.at(number, method, *some) for number, some in enumerate(own)])


def _limits(expansions: Expansions) -> Limits:
    """Return how many rows may be used at once in all places."""
    return Limits(*map(min, zip(*_each(expansions, DualExpansion.limits), strict=True)))


class _Sums(NamedTuple):
    """The dual variables of all places, and sums over them.

    Attributes
    ----------
    expansions : Expansions
        Of all places.
    support : list
        The rows with dual variables of each place, there.
    counts : list of int
        Their numbers.
    limits : Limits
        How many rows may be used at once.
    square : float
        Square of the constant feature.
    """

    expansions: Expansions
    support: list[Any]
    counts: list[int]
    limits: Limits
    square: float

    def conjugates(self, share: Any) -> np.ndarray:
        """Return Σ c ℓ*(-t β / c) for each score, with shares t of each."""
        return added(_each(self.expansions, DualExpansion.conjugates, self.support, share))

    def form(self) -> np.ndarray:
        """Return βᵀ (K + s²) β, by kernel values of all pairs of rows."""
        rows = [np.arange(count) for count in self.counts]
        products = self._at(rows, self.square, DualExpansion.products)
        return added(each.sum(axis=0) for each in products)

    def estimated_form(self, n_rows: int, rng: np.random.RandomState) -> np.ndarray:
        """Return the upper end of an interval for βᵀ (K + s²) β, from sums at a sample of rows."""
        expansions = self.expansions
        looked = [expansions.at(number, DualExpansion.looked, own) for number, own in enumerate(self.support)]
        parts, sums = zip(*_each(expansions, DualExpansion.told, looked), strict=True)
        known, totals = added(parts), added(sums)
        rates = np.array([1 / totals[0], 0]) if totals[1] == 0 else 0.5 / totals
        ends = list(accumulate(float(rates @ own) for own in sums))
        uniform = np.minimum(rng.random_sample(n_rows) * ends[-1], np.nextafter(ends[-1], 0))
        place, begins = np.searchsorted(ends[:-1], uniform, side="right"), [0.0, *ends[:-1]]
        heights = [uniform[place == number] - begin for number, begin in enumerate(begins)]
        drawn = _each(expansions, DualExpansion.drawn, looked, rates, heights)
        rows, counts, chances = zip(*drawn, strict=True)
        products = self._at(list(rows), 0.0, DualExpansion.differences, known)
        terms = np.repeat(np.concatenate(products) / np.concatenate(chances)[:, None], np.concatenate(counts), axis=0)
        error = terms.std(axis=0, ddof=1) / np.sqrt(n_rows)
        total = added(_each(expansions, DualExpansion.total, self.support))
        form = np.maximum(np.square(known).sum(axis=0) + terms.mean(axis=0) + _ERRORS * error, 0.0)
        return form + self.square * np.square(total)

    def _at(self, rows: list[np.ndarray], square: float, method: Any, *given: Any) -> list[np.ndarray]:
        """Return what a method makes of ((K + square) β) at some rows of each place, in blocks."""
        expansions, n_asked = self.expansions, 0
        found: list[np.ndarray] = []
        asked: list[Any] = []
        for number, own in enumerate(rows):
            for a, b in spans(len(own), self.limits.n_chunk):
                if asked and n_asked + b - a > self.limits.n_held:  # blocks are in memory until they are used
                    found += expansions.told(asked)
                    asked, n_asked = [], 0
                block = expansions.at(number, DualExpansion.block, self.support[number], own[a:b])
                each = enumerate(self.support)
                sums = [expansions.at(k, DualExpansion.sums, block, other, square) for k, other in each]
                asked.append(expansions.at(number, method, self.support[number], own[a:b], sums, *given))
                n_asked += b - a
        return found + expansions.told(asked)


def _best_shares(known: _Sums, machine: Machine, form: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best multiples of β for each problem, and their dual objectives, at least 0, which is a bound too."""

    def conjugates(share: Any) -> np.ndarray:
        return machine.by_problem(known.conjugates(share))

    whole, half = conjugates(1.0), conjugates(0.5)
    curvature = 4 * (whole - 2 * half)
    slope = curvature / 2 - whole
    with np.errstate(over="ignore"):  # where equal samples of both classes cancel, the form may be 0
        share = np.clip(slope / np.maximum(curvature + form, np.finfo(float).tiny), 0.0, 1.0)
    return share, np.maximum(-conjugates(share) - np.square(share) * form / 2, 0.0)
