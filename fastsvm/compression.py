"""Kernel machines with fewer support vectors, whose decision functions are almost the same.

The support vectors that stay are drawn by randomly pivoted Cholesky factorisation, weighted by their coefficients.
Then all coefficients are fitted anew by least squares. The pairs of three classes and more share the support vectors.
"""

from collections.abc import Iterator
from copy import deepcopy
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import linalg
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.session import view_of
from fastsvm.estimators.fitting.validation import Column, Samples, check_rows
from fastsvm.estimators.kernel.kernel_parameter import is_precomputed, samples_for
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.kernel_matrix.expansion import expand
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.linalg.cholesky import Inverse
from fastsvm.low_rank import JITTER, RandomPivots
from fastsvm.memory import parse_memory
from fastsvm.multiclass import class_pairs
from fastsvm.sources import Block, Source, check_finite
from fastsvm.tuning import current_tuning

_GRID = 8  # So many numbers of support vectors are tried at once.
_REFINED = 1.03  # No other is tried between two numbers whose quotient is below this.
_RIDGE = 1e-7  # It is μ, relative to the sum of the squared lengths of φ(x).
# There are so many copies of the coefficients: those of the model, their squares, and those of fewer support vectors.
# There are as many of the factor, twice while it grows, and of some else.
_COPIES = 3
_OF_THE_FIT = {
    "objective_", "duality_gap_", "kkt_violation_", "converged_", "n_iter_", "history_", "passes_", "fit_status_",
    "within_margin_", "_multipliers",
}  # fmt: skip


class Compression(NamedTuple):
    """A compressed model, and the differences of its decision values on the given rows, computed in float64.

    `curve` holds what was tried: columns `n_support`, in rising order, `max_difference` and `rms_difference`.
    """

    model: KernelMachine  # It has the class of the model that was passed.
    n_support: int
    max_difference: float
    rms_difference: float
    curve: dict[str, np.ndarray]


def compress(
    model: KernelMachine,
    X: Samples,
    tol: float | None = 0.1,
    *,
    y: Column = None,
    n_support: int | None = None,
    memory: str | int = "auto",
    random_state: int | np.random.RandomState | None = 0,
) -> Compression:
    """Return a model with few support vectors, whose decision values on given rows differ by at most `tol`.

    Predictions take time in proportion to the number of support vectors. Those of the compressed model are some of the
    support vectors of the model. They are drawn by randomly pivoted Cholesky factorisation of the kernel matrix, and
    have coefficients by least squares, on the given rows and in the norm of the kernel. Numbers of support vectors are
    doubled until the tolerance is reached, then refined to three parts in a hundred.

    Parameters
    ----------
    model : SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Fitted.
    X : as for `predict`, shape (n_samples, n_features)
        Rows on which the decision values must agree, such as the samples of the fit. Rows like those to be predicted
        are best, several times as many as support vectors are to stay.
    tol : float or None, default=0.1
        Largest difference of a decision value on these rows. The margin has the decision values -1 and 1.
    y : array-like of shape (n_samples,) or None, default=None
        Labels of the rows, for classifiers and together with `n_support`. The decision values that are fitted are then
        those of the model plus the margin of 1 towards the label. They differ more from the model's. The classes may
        be more accurate where they overlap much, and less where they do not: compare both on other samples. Use the
        samples of the fit, or others that are not for test.
    n_support : int or None, default=None
        Number of support vectors to keep, whatever the difference; `tol` is ignored.
    memory : "auto", int or str, default="auto"
        Memory that may be used: bytes, or a size such as "2GB". "auto" is half of what is available. It bounds the
        number of support vectors.
    random_state : int, RandomState or None, default=0
        Source of random numbers.

    Returns
    -------
    Compression
        `model`, `n_support`, `max_difference`, `rms_difference` and `curve`. The model has no certificate:
        no `objective_`, `duality_gap_`, `kkt_violation_`, `converged_` and `history_`, and its `stop_reason_` is
        "compressed". Of three classes and more, `dual_coef_` has a row for each pair of classes. If so many support
        vectors are needed that nothing is gained, the model is a copy of the one that was passed.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is not a kernel machine.
    ValueError
        If the kernel is precomputed, a parameter is not valid, X does not have the features of the fit, or y is not
        of its length, has other classes, or is passed without `n_support`.

    References
    ----------
    Chen, Epperly, Tropp and Webber (2024), Randomly pivoted Cholesky: practical approximation of a kernel matrix with
    few entry evaluations, Communications on Pure and Applied Mathematics 78. Burges (1996), Simplified support vector
    decision rules, ICML. Suykens and Vandewalle (1999), Least squares support vector machine classifiers, Neural
    Processing Letters 9.

    Examples
    --------
    >>> import fastsvm
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(500, noise=0.3, random_state=0)
    >>> model = fastsvm.SVC().fit(X, y)
    >>> found = fastsvm.compress(model, X, tol=0.01)
    >>> len(model.support_) > 5 * found.n_support, found.max_difference <= 0.01
    (True, True)
    >>> found.model.predict(X[:3]).shape
    (3,)
    """
    model = view_of(model)  # another thread may fit it
    _check(model, tol, n_support)
    source = check_rows(model, samples_for(model, X, model.support_vectors_), reset=False)
    towards = None if y is None else _towards(model, y, len(source), n_support)
    n, n_outputs, budget = len(model.support_), len(np.atleast_1d(model.intercept_)), parse_memory(memory)
    needed = 8 * n_outputs * (_COPIES * n + len(source))
    if n_outputs > 1 and needed > budget:
        raise ValueError(
            f"The coefficients and decision values of {n_outputs:,} pairs of classes take {needed / 1e9:.4g} GB, and "
            f"memory allows {budget / 1e9:.4g} GB. Raise memory, or pass fewer rows."
        )
    most = min(n - 1, budget // (8 * _COPIES * max(n, 1)))
    if n_support is not None:
        tol, most = None, n_support if n_support < n else 0
    with Pool.open() as pool:
        search = _Search(model, source, check_random_state(random_state), pool, towards)
        return search.compression(search.run(most, tol), tol)


def _check(model: KernelMachine, tol: float | None, n_support: int | None) -> None:
    if not isinstance(model, KernelMachine):
        raise TypeError(f"Kernel machines can be compressed, found {type(model).__name__}.")
    check_is_fitted(model)
    if is_precomputed(model):
        raise ValueError(
            "A model with a precomputed kernel does not have its support vectors, which a compression needs. Fit with "
            "a kernel of fastsvm.kernels or a function."
        )
    if n_support is None and not (isinstance(tol, Real) and 0 < tol < np.inf):
        raise ValueError(f"tol must be a positive number, or n_support be passed. Got tol={tol!r}.")
    if n_support is not None and not (isinstance(n_support, Integral) and n_support >= 1):
        raise ValueError(f"n_support must be a whole number, at least 1. Got {n_support!r}.")


def _towards(model: KernelMachine, y: Column, n_samples: int, n_support: int | None) -> np.ndarray:
    """Return the margin of 1 towards the labels, a column for each decision function."""
    if not is_classifier(model):
        raise ValueError(f"y is for classifiers, found {type(model).__name__}. Leave it out.")
    if n_support is None:
        raise ValueError("With y, decision values move by more than tol says. Pass n_support= too, or leave y out.")
    labels = column_or_1d(y, warn=True)
    if len(labels) != n_samples:
        raise ValueError(f"y has {len(labels)} labels, X has {n_samples} rows.")
    classes = model.classes_
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(f"y has the label {unknown[0]}, which is no class of the model.")
    of_class = labels[:, None] == classes
    pairs = [(1, 0)] if len(classes) == 2 else class_pairs(len(classes))
    return np.stack([of_class[:, a] * 1.0 - of_class[:, b] for a, b in pairs], axis=1)


class _Search:
    """Numbers of support vectors, and how well they do."""

    def __init__(
        self, model: KernelMachine, source: Source, rng: np.random.RandomState, pool: Pool, towards: np.ndarray | None
    ) -> None:
        self.model, self.pool = model, pool
        coef = model._coefficients()
        self.coef = (coef if isinstance(coef, np.ndarray) else coef.toarray()).T
        self.predictor = Predictor(model, self.coef, source, pool)
        pairwise, support, _ = self.predictor.exact(self.predictor.stored.block)
        self.support = support
        self.pivots = RandomPivots(Gram(pairwise, support, pool), np.square(self.coef).sum(axis=1), rng, pool)
        self.fit = _DecisionFit(self.predictor, source, pool, towards)
        self.tried: dict[int, tuple[float, float, np.ndarray]] = {}

    def run(self, most: int, tol: float | None) -> list[int]:
        """Try numbers of support vectors up to `most`, more of them near the fewest within `tol`; return them."""
        size, last = (most if tol is None else min(current_tuning().nystroem.first, most)), 0
        while size > 0:
            self.pivots.grow(size)
            n_found = len(self.pivots.rows)
            if n_found == 0:  # no kernel value of a row with itself is positive
                break
            self.fit.begin(self.pivots.rows)
            self._try(np.unique(np.geomspace(max(1, last or n_found / 2**_GRID), n_found, _GRID).astype(int)))
            if tol is None or self.tried[n_found][0] <= tol or n_found < size or size == most:
                break
            last, size = size, min(most, 2 * size)
        if tol is not None and self.tried:
            self._refine(tol)
        return sorted(self.tried)

    def _refine(self, tol: float) -> None:
        """Try numbers between the fewest within `tol` and the next one that was tried."""
        while True:
            sizes = sorted(self.tried)
            good = next((k for k, size in enumerate(sizes) if self.tried[size][0] <= tol), None)
            if good is None:
                return
            low, high = (sizes[good - 1] if good else 1), sizes[good]
            between = np.setdiff1d(np.geomspace(low, high, _GRID + 2)[1:-1].astype(int), sizes)
            if high <= _REFINED * low or len(between) == 0:
                return
            self._try(between)

    def _try(self, sizes: np.ndarray) -> None:
        new = [int(size) for size in sizes if size not in self.tried]
        for size, differences in zip(new, self.fit.solve(new), strict=True):
            self.tried[size] = differences

    def compression(self, sizes: list[int], tol: float | None) -> Compression:
        """Return the model of the fewest support vectors within `tol`, else of the most."""
        columns = np.array([self.tried[size][:2] for size in sizes]).reshape(-1, 2)
        curve = {"n_support": np.array(sizes, int), "max_difference": columns[:, 0], "rms_difference": columns[:, 1]}
        good = [size for size in sizes if tol is None or self.tried[size][0] <= tol]
        if not good:
            return Compression(deepcopy(self.model), len(self.coef), 0.0, 0.0, curve)
        size = good[0] if tol is not None else good[-1]
        largest, usual, coef = self.tried[size]
        return Compression(_with(self.model, self.pivots.rows[:size], coef), size, largest, usual, curve)


def _with(model: KernelMachine, rows: np.ndarray, coef: np.ndarray) -> KernelMachine:
    """Return a model of some of the support vectors, with a column of coefficients for each decision function."""
    compressed = clone(model)
    attributes = {name: value for name, value in vars(model).items() if name not in vars(compressed)}
    vars(compressed).update({name: value for name, value in attributes.items() if name not in _OF_THE_FIT})
    compressed.stop_reason_ = "compressed"
    order = np.argsort(rows)
    rows, coef = rows[order], np.ascontiguousarray(coef[order].T)
    ends = np.cumsum(model.n_support_)
    compressed.support_ = model.support_[rows]
    compressed.support_vectors_ = _safe_indexing(model.support_vectors_, rows)
    compressed.n_support_ = np.diff(np.searchsorted(rows, ends), prepend=0).astype(np.int32)
    compressed.dual_coef_ = coef if isinstance(model.dual_coef_, np.ndarray) else type(model.dual_coef_)(coef)
    return compressed


# --- coefficients by least squares -----------------------------------------------------------------------


class _DecisionFit:
    """The fit of a model's decision functions on the rows of `source` by expansions in some of its support vectors.

    It minimises Σ_x ‖f(x) - f_M(x)‖² + μ ‖f - f_M‖² over the expansions f_M in the rows M, where the first sum is over
    given rows x, and the second norm is that of the kernel's space. In the orthonormal features φ(x) = L⁻¹ k_M(x) with
    the Cholesky factor K_MM = L Lᵀ, the weights u solve (Σ_x φ(x) φ(x)ᵀ + μ I) u = Σ_x φ(x) f(x) + μ L⁻¹ f(M), and the
    coefficients are L⁻ᵀ u. The systems of the first rows of M are leading blocks of that of all.

    With labels, f(x) + t(x) stands for f(x) in the first sum, where t, `towards` of shape (n_rows, n_outputs), is the
    margin of 1 with the sign of the label: where classes overlap, the labels give back some of what f_M loses of f
    there (Suykens and Vandewalle 1999).
    """

    def __init__(self, predictor: Predictor, source: Source, pool: Pool, towards: np.ndarray | None = None) -> None:
        self._predictor, self._source, self._pool = predictor, source, pool
        self._tuning = current_tuning().products
        self._decisions = np.concatenate([self._exact_decisions(block, start) for start, block in self._blocks(source)])
        self._targets = self._decisions if towards is None else self._decisions + towards

    def _blocks(self, source: Source) -> Iterator[tuple[int, Block]]:
        """Yield rows with the number of the first, few at once."""
        for start, block in source.blocks():
            for a, b in spans(block.shape[0], self._tuning.piece_rows):
                yield start + a, block.slice(a, b)

    def _exact_decisions(self, block: Block, start: int) -> np.ndarray:
        check_finite(block, start)
        pairwise, support, rows = self._predictor.exact(block)
        return expand(pairwise, support.block, self._predictor.coef, rows.block, self._pool)

    def begin(self, rows: np.ndarray) -> None:
        """Sum the system of the support vectors `rows`."""
        self._rows, kept = rows, self._predictor.stored.take(rows)
        among = np.concatenate([self._values(block, len(rows)) for _, block in self._blocks(kept)], axis=1)
        jittered = among.copy()
        jittered[np.diag_indices_from(jittered)] += JITTER * max(float(np.trace(among)), 1e-300) / len(among)
        self._whitening = linalg.inv(linalg.cholesky(jittered, lower=True))
        decisions = np.concatenate([self._exact_decisions(block, start) for start, block in self._blocks(kept)])
        square, right = np.zeros_like(among), np.zeros_like(decisions)
        for start, block in self._blocks(self._source):
            phi = self._whitening @ self._values(block, len(rows))
            self._pool.run(_add_product, [(square[a:b], phi[a:b], phi) for a, b in spans(len(phi), self._tuning.tile)])
            right += phi @ self._targets[start : start + phi.shape[1]]
        ridge = _RIDGE * max(float(np.trace(square)), np.finfo(float).tiny)
        square[np.diag_indices_from(square)] += ridge
        self._square, self._right = square, right + ridge * (self._whitening @ decisions)

    def _values(self, block: Block, n_kept: int) -> np.ndarray:
        """Return the kernel of the first rows kept with those of a block, in float64."""
        pairwise, support, rows = self._predictor.exact(block)
        values = np.empty((n_kept, len(rows)))
        Gram(pairwise, rows, self._pool, support).rows(self._rows[:n_kept], values, np.arange(n_kept))
        return values

    def solve(self, sizes: list[int]) -> list[tuple[float, float, np.ndarray]]:
        """Return the largest and rms difference, and coefficients, shape (size, n_outputs), by number of first rows."""
        coefs = []
        for size in sizes:
            inverse = Inverse(self._square[:size, :size].copy(), self._pool)
            coefs.append(self._whitening[:size, :size].T @ inverse.times(self._right[:size]))
        largest, total = np.zeros(len(sizes)), np.zeros(len(sizes))
        for start, block in self._blocks(self._source) if sizes else ():
            values = self._values(block, max(sizes))
            expected = self._decisions[start : start + values.shape[1]].T
            for k, (size, coef) in enumerate(zip(sizes, coefs, strict=True)):
                difference = coef.T @ values[:size] - expected
                largest[k] = max(largest[k], np.abs(difference).max())
                total[k] += np.square(difference).sum()
        usual = np.sqrt(total / self._decisions.size)
        return [(float(a), float(b), coef) for a, b, coef in zip(largest, usual, coefs, strict=True)]


def _add_product(out: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    out += left @ right.T
