"""Coefficients of fewer support vectors by least squares.

Minimises Σ_x ‖f(x) - f_M(x)‖² + μ ‖f - f_M‖² over the expansions f_M in the rows M, where the first sum is over given
rows x, and the second norm is that of the kernel's space. In the orthonormal features φ(x) = L⁻¹ k_M(x) with the
Cholesky factor K_MM = L Lᵀ, the weights u solve (Σ_x φ(x) φ(x)ᵀ + μ I) u = Σ_x φ(x) f(x) + μ L⁻¹ f(M), and the
coefficients are L⁻ᵀ u. The systems of the first rows of M are leading blocks of that of all.

With labels, f(x) + t(x) stands for f(x) in the first sum: t is the margin of 1, with the sign of the label. So f_M is
the fit of f, plus that of a classifier by least squares (Suykens and Vandewalle 1999). Both aim at the
same boundary: where classes overlap, the labels give back some of what f_M loses of f there.
"""

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.kernel_matrix.expansion import expand
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.linalg.cholesky import Inverse
from fastsvm.low_rank.random_pivots import JITTER
from fastsvm.sources import Block, Source, check_finite
from fastsvm.tuning import current_tuning

__all__ = ["DecisionFit"]

_RIDGE = 1e-7  # It is μ, relative to the sum of the squared lengths of φ(x).


class DecisionFit:
    """The fit of a model's decision functions on the rows of `source` by expansions in some of its support vectors.

    `towards`, of shape (n_rows, n_outputs), is added to the decisions that are fitted; the differences are those from
    the model's.
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
        self._whitening = _whitening(among)
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
        """Fit the coefficients of the first rows, for several numbers of them.

        Return for each the largest difference on the given rows, the root mean square of the differences, and the
        coefficients, shape (size, n_outputs).
        """
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


def _whitening(among: np.ndarray) -> np.ndarray:
    """Return L⁻¹ for the matrix L Lᵀ of kernel values among some rows."""
    square = among.copy()
    square[np.diag_indices_from(square)] += JITTER * max(float(np.trace(square)), 1e-300) / len(square)
    return linalg.inv(linalg.cholesky(square, lower=True))


def _add_product(out: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    out += left @ right.T
