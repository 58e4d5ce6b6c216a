"""The gradient F of a dual problem: how exact it is, and how it is computed anew.

Steps change F by sums of kernel rows. Each sum adds the rounding error of its kernel values, which may be float32. So F
is computed anew before a fit ends. Where kernel values are float64, the sum is over the multipliers alone. Where they
are float32, that sum would have the same errors, as a value has the same bits in each sum: values in float64 replace F
of the rows that decide. Where even float64 is too coarse, F of a linear kernel is summed in twice the digits.
"""

import functools

import numpy as np

from fastsvm._compiled.threads import spans
from fastsvm.kernel_matrix.accurate_sums import SUMMED_ROWS, Samples, ValueBounds, accurate_sums
from fastsvm.kernel_matrix.rounding import NEAR, RETURNED, SEEN, UNIT
from fastsvm.kernel_matrix.rows import KernelProducts, ProblemRows
from fastsvm.linalg.double_floats import FINE
from fastsvm.solvers.kernel_dual.problem import (
    KernelDualState,
    KernelProblem,
    certify,
    levelled,
    violation,
    violation_bound,
)
from fastsvm.solvers.kernel_dual.working_sets import movable, settled

_PATIENCE = 3  # Steps end once F in more digits showed so often that the gap did not fall by a share that is seen.
_DECIDING_ROWS = 32  # F of so many rows of each of three kinds is computed in float64 before a fit ends.
_DOUBT = 5  # The error to expect of others is so many times that of a few rows.
_DOUBT_OF_MANY = 2  # It is so many times the error of all rows with a multiplier.


def rounding_is_visible(total: float, dtype: np.dtype, tol: float) -> bool:
    """Return whether rounding errors of kernel values, times coefficients of that total, are visible at `tol`."""
    return total * float(np.finfo(dtype).epsneg) > tol


class GradientBounds:
    """Bounds on the errors of F, and F in more digits than float64 has.

    Multiplier k belongs to sample k modulo the number of samples, of whose kernel values `bounds` are.
    """

    def __init__(self, problem: KernelProblem, samples: Samples, bounds: ValueBounds) -> None:
        self._problem, self._samples, self._bounds = problem, samples, bounds
        self._sample_of = np.arange(len(problem.y)) % len(bounds.sizes)
        is_divided = problem.groups == 2 and len(problem.y) == len(bounds.sizes)
        self._of_coef = RETURNED if is_divided else 0.0

    def errors(self, state: KernelDualState, by_parts: bool = False) -> np.ndarray:
        """Return bounds on the errors of F where it was summed from the multipliers in float64, maybe by parts."""
        of_sums = self.of_change(state.alpha, by_parts)
        return of_sums + 2 * UNIT * (np.abs(state.gradient) + np.abs(self._problem.target))

    def of_change(self, delta: np.ndarray, by_parts: bool = False) -> np.ndarray:
        """Return bounds on the errors of what changes of multipliers, in float64, add to F."""
        changed = np.flatnonzero(delta)
        return self._bounds.errors(self._sample_of[changed], delta[changed], by_parts)[self._sample_of]

    def accurate(self, alpha: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return F of some rows in twice the digits, and bounds on its errors; None where that is not possible."""
        chosen = np.flatnonzero(alpha)
        coef, support = (alpha * self._problem.y)[chosen], self._sample_of[chosen]
        columns, inverse = np.unique(self._sample_of[at], return_inverse=True)
        sums = accurate_sums(self._samples, support, coef, columns)
        if sums is None:
            return None
        gradient = (sums.high[inverse] - self._problem.target[at]) + sums.low[inverse]
        sizes, share = self._bounds.sizes, self._bounds.fine_error + 2 * FINE + self._of_coef
        fine = sizes[self._sample_of[at]] * (float(np.abs(coef) @ sizes[support]) * share)
        return gradient, fine + 2 * UNIT * (np.abs(gradient) + np.abs(self._problem.target[at]))


def sharpened(
    problem: KernelProblem, state: KernelDualState, error: np.ndarray, tol: float, bounds: GradientBounds
) -> tuple[KernelDualState, np.ndarray]:
    """Return F with bounds on its errors, in more digits than float64 has where its rounding is visible."""
    certificate = certify(problem, state.alpha, state.gradient, error, tol)
    if not (certificate.seen_in_violation or certificate.seen_in_gap):
        return state, error
    y, at = problem.y, np.arange(len(state.alpha))
    if not certificate.seen_in_violation:  # other rows have no share in the objective or the gap
        away = y * (state.gradient - certificate.rho - certificate.margin * y)
        at = np.flatnonzero((state.alpha > 0) | (away <= 2 * error))
    exact = bounds.accurate(state.alpha, at)
    if exact is None:
        return state, error
    gradient, error = state.gradient.copy(), error.copy()
    gradient[at], error[at] = exact
    return state._replace(gradient=gradient), error


class DualGradient:
    """Keeps the gradient of one problem exact enough for `tol`, the largest gap at the end.

    `rounding` is the error of F at an interior solution, else 0. After `confirm`, the gap may be larger by twice the
    `doubt`. `least` is the least gap by an F in more digits, and `waited` how often none was less since.
    """

    def __init__(self, problem: KernelProblem, rows: ProblemRows, products: KernelProducts, tol: float) -> None:
        self.rows, self.products, self.rounding, self.doubt = rows, products, 0.0, 0.0
        self.least, self.waited = np.inf, 0
        self._problem, self._tol = problem, tol
        self._known: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # α, F and the bounds on its errors

    @functools.cached_property
    def bounds(self) -> GradientBounds:
        """Bounds on the errors of F."""
        return GradientBounds(self._problem, self.rows.gram.samples, self.rows.gram.value_bounds())

    @functools.cached_property
    def exact(self) -> bool:
        """Whether kernel values are computed in float64."""
        return bool(self.rows.store.dtype == np.float64)

    @property
    def verified(self) -> bool:
        """Whether F is that of the multipliers, up to errors that are small relative to the tolerance."""
        return not self.is_blurred(self._tol)

    def is_blurred(self, gap: float) -> bool:
        """Return whether the errors that steps left in F are visible beside a gap."""
        # Values of float32 were chosen because their rounding, times the values, is small.
        scale = self.products.largest if self.exact else 1.0
        return rounding_is_visible(self.products.drift * scale, self.rows.store.dtype, gap)

    def may_be_exact(self, state: KernelDualState) -> bool:
        """Return whether kernel values in float64 would make F more exact, and are cheap to compute."""
        dtype = self.rows.store.dtype
        return dtype == np.float32 and self.rows.cheap and rounding_is_visible(state.alpha.sum(), dtype, self._tol)

    def is_rounding(self, gap: float) -> bool:
        """Return whether a gap may be the rounding error of F; further steps would follow that error."""
        return self.rounding > 0 and gap <= NEAR * self.rounding

    def refines(self, state: KernelDualState) -> bool:
        """Write F in more digits than float64 has, and return whether steps that follow it may still gain."""
        if not self.exact or self.waited >= _PATIENCE:
            return False
        exact, error = self.certain(state)
        state.gradient[:], self.products.drift = exact.gradient, 0.0
        left = violation(self._problem, *exact[:2])
        is_less = left < (1 - SEEN) * self.least
        self.least, self.waited = (left, 0) if is_less else (self.least, self.waited + 1)
        return 2 * float(error.max()) <= self._tol

    def recompute(self, state: KernelDualState) -> None:
        """Set F from the multipliers alone."""
        support = np.flatnonzero(state.alpha)
        coef = (state.alpha * self._problem.y)[support]
        state.gradient[:] = -self._problem.target
        self.products.add_rows(state.gradient, support, coef)
        self.products.drift = 0.0
        if self.exact and self._blurs(state):
            state.gradient[:] = self.certain(state)[0].gradient

    def _blurs(self, state: KernelDualState) -> bool:
        """Return whether the rounding of sums in float64 may be seen at the tolerance."""
        return 2 * float(self.bounds.errors(state).max()) > SEEN * self._tol

    def certain(self, state: KernelDualState) -> tuple[KernelDualState, np.ndarray]:
        """Return the state with F from its multipliers alone, and bounds on the errors of F."""
        if self._known is None or not np.array_equal(self._known[0], state.alpha):
            if self.exact:
                summed, by_parts = self._recomputed(state)
                error = self.bounds.errors(summed, by_parts)
                summed, error = sharpened(self._problem, summed, error, self._tol, self.bounds)
                self._known = state.alpha.copy(), summed.gradient, error
            else:
                self.confirm(state._replace(gradient=state.gradient.copy()))
        assert self._known is not None
        return state._replace(gradient=self._known[1].copy()), self._known[2]

    def correct(self, state: KernelDualState) -> None:
        """Remove the errors of earlier steps from F where they matter, by values in float64."""
        self._correct(state, np.flatnonzero(state.alpha), np.zeros(len(state.alpha), bool), 0.0)
        self.products.drift = 0.0

    def matrix(self) -> np.ndarray:
        """Return the kernel matrix in float64, in new memory."""
        rows = np.arange(len(self._problem.y))
        if len(self.rows.store) and (self.exact or not self.rows.cheap_among):
            values, columns = self.rows.store[self.rows.fetch(rows)], self.rows.columns(rows)
            return (values if columns is rows else values[:, columns]).astype(np.float64, copy=False)
        out = np.empty((len(rows), len(rows)))
        self.rows.among(rows, 0, out)
        return out

    def _recomputed(self, state: KernelDualState) -> tuple[KernelDualState, bool]:
        """Return the state with F from its multipliers alone, and whether it was summed by parts."""
        support = np.flatnonzero(state.alpha)
        slots, coef = self.rows.slots_of(support), (state.alpha * self._problem.y)[support]
        gradient, drift, by_parts = -self._problem.target, self.products.drift, (slots >= 0).all()
        for a, b in spans(len(support), SUMMED_ROWS if by_parts else max(1, len(support))):
            part = np.zeros(len(gradient)) if by_parts else self.rows.weighted_sum(support, coef)
            if by_parts:
                self.products.add(part, slots[a:b], coef[a:b])
            gradient += part
        self.products.drift = drift
        return state._replace(gradient=gradient), bool(by_parts)

    def confirm(self, state: KernelDualState) -> bool:
        """Write F in float64 to the rows that decide whether a fit ends, and return whether any may have changed.

        They violate most or nearly do, or have multipliers. If F is wrong there by too much, the gap must be smaller by
        the `doubt`, or F is computed anew for all with a multiplier and those that might violate.
        """
        support, self.doubt = np.flatnonzero(state.alpha), 0.0
        if len(support) == 0:
            return False
        if self.exact:
            return self._confirm_exactly(state)
        done = np.zeros(len(state.alpha), bool)
        error = self._set_exactly(state, support, self._deciding(state), done)
        doubt = _DOUBT * error
        if self.rows.cheap or 2 * doubt > self._tol - 2 * doubt:  # a gap smaller by twice the doubt would be too small
            error = max(error, self._correct(state, support, done, _DOUBT / _DOUBT_OF_MANY * error))
            doubt = _DOUBT_OF_MANY * error
        self.products.drift = 0.0
        bounds = np.where(done, self.bounds.errors(state), doubt)
        self._known = state.alpha.copy(), state.gradient.copy(), bounds
        self._set_doubt(state, bounds)
        return True

    def _set_doubt(self, state: KernelDualState, error: np.ndarray) -> None:
        """Set `doubt` to that by which the violation, which counts the errors of F, may be larger than the gap."""
        worst = violation_bound(self._problem, *state[:2], error)
        self.doubt = (worst - violation(self._problem, *state[:2])) / 2

    def _confirm_exactly(self, state: KernelDualState) -> bool:
        """Write F in more digits than float64 has where its rounding is visible, and return whether it is."""
        if not self._blurs(state):
            return False
        exact, error = self.certain(state)
        state.gradient[:] = exact.gradient
        self._set_doubt(exact, error)
        self.products.drift = 0.0
        return True

    def _correct(self, state: KernelDualState, support: np.ndarray, done: np.ndarray, error: float) -> float:
        """Write F in float64 to rows with a multiplier or near violation, and return its largest error.

        `done` marks rows where F is exact already, with the largest error `error`.
        """
        error = max(error, self._set_exactly(state, support, support, done))
        most = error
        while error > 0:
            slack = settled(self._problem, state.alpha, *levelled(self._problem, state.alpha, state.gradient))
            doubtful = np.flatnonzero(~done & (slack <= _DOUBT_OF_MANY * error))
            if len(doubtful) and not self.rows.gram.resident:
                doubtful = np.flatnonzero(~done)  # one pass over the file is enough for all
            largest = self._set_exactly(state, support, doubtful, done)
            error, most = (largest if largest > error else 0.0), max(most, largest)
        return most

    def _set_exactly(self, state: KernelDualState, support: np.ndarray, places: np.ndarray, done: np.ndarray) -> float:
        """Write F in float64 to some rows, and return its largest error there. `done` says of which rows it is."""
        if len(places) == 0:
            return 0.0
        coef = (state.alpha * self._problem.y)[support]
        whole = len(places) == len(done)
        exact = self.rows.weighted_sum(support, coef, None if whole else places) - self._problem.target[places]
        error = float(np.abs(exact - state.gradient[places]).max(initial=0.0))
        state.gradient[places] = exact
        done[places] = True
        return error

    def _deciding(self, state: KernelDualState) -> np.ndarray:
        """Return the rows of least F that may rise, of greatest F that may fall, and some with multipliers."""
        support = np.flatnonzero(state.alpha)
        most = min(_DECIDING_ROWS, len(state.alpha))
        level = levelled(self._problem, state.alpha, state.gradient)[0]
        rising, falling = movable(self._problem, state.alpha, level)
        rises = np.argpartition(rising, most - 1)[:most]
        falls = np.argpartition(-falling, most - 1)[:most]
        others = support[np.linspace(0, len(support) - 1, most).astype(np.int64)]
        return np.unique(np.concatenate([rises, falls, others]))


class StoredGradient(DualGradient):
    """F where the stored kernel values are the kernel: no value is computed anew in more digits."""

    exact = False

    def is_blurred(self, gap: float) -> bool:
        """Return whether the errors that steps left in F, which is summed in float64, are visible beside a gap."""
        return self._error > gap

    @property
    def _error(self) -> float:
        return self.products.drift * self.products.largest * UNIT

    def confirm(self, state: KernelDualState) -> bool:
        """Sum F anew if its errors are visible at the tolerance, and return whether they were."""
        if self.verified or not state.alpha.any():
            return False
        self.recompute(state)
        return True

    def certain(self, state: KernelDualState) -> tuple[KernelDualState, np.ndarray]:
        """Return the state, and a bound on the errors of F."""
        return state, np.full(len(state.gradient), self._error)
