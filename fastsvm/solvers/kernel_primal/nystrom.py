"""Nyström features: their dot products approximate the kernel (Williams and Seeger 2001).

With a few rows M of K and K_MM = L Lᵀ, the features of all rows are the columns of L⁻¹ K_MN.
"""

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import Pool, spans

__all__ = ["features", "weighted_square", "whitening"]

_COLUMNS = 2048
_TILE_ROWS = 128


def whitening(store: np.ndarray, slots: np.ndarray, basis: np.ndarray, ridge: float) -> np.ndarray:
    """Return L⁻¹ in float64, shape (m, m). `ridge` times the mean of its diagonal is added to the diagonal of K_MM.

    Raises
    ------
    scipy.linalg.LinAlgError
        If K_MM is not positive definite.
    """
    square = store[slots[:, None], basis].astype(np.float64)
    square[np.diag_indices_from(square)] += ridge * max(float(np.trace(square)), 1e-300) / len(square)
    return linalg.inv(linalg.cholesky(square, lower=True))


def features(
    whitening: np.ndarray, rows: tuple[np.ndarray, np.ndarray], columns: np.ndarray | None, pool: Pool
) -> np.ndarray:
    """Return the features, in the type of `whitening`, shape (m, n).

    Parameters
    ----------
    whitening : ndarray of shape (m, m)
        L⁻¹.
    rows : tuple of ndarray
        A store of kernel rows, and the slots of the rows M in it.
    columns : ndarray of int64 or None
        Rows to compute features for; None for all.
    pool : Pool
        Threads.
    """
    store, slots = rows
    n = store.shape[1] if columns is None else len(columns)
    out = np.empty((len(slots), n), whitening.dtype)

    def whiten(a: int, b: int) -> None:
        values = store[slots, a:b] if columns is None else store[slots[:, None], columns[a:b]]
        out[:, a:b] = whitening @ values.astype(whitening.dtype, copy=False)

    pool.run(whiten, spans(n, _COLUMNS))
    return out


def weighted_square(features: np.ndarray, weights: np.ndarray, pool: Pool) -> np.ndarray:
    """Return Φᵀ diag(weights) Φ for features Φᵀ of shape (m, n). Columns of weight 0 are skipped."""
    m, n = features.shape
    square = np.zeros((m, m))
    tiles: Sequence[tuple[int, int]] = list(spans(m, _TILE_ROWS))
    for a, b in spans(n, _COLUMNS):
        used = np.flatnonzero(weights[a:b])
        if len(used):
            part = features[:, a:b][:, used] * np.sqrt(weights[a:b][used]).astype(features.dtype)
            pool.run(_add_product, [(square[c:d], part[c:d], part) for c, d in tiles])
    return square


def _add_product(out: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    out += left @ right.T
