"""The initial learning rate of SGD, estimated from some thousand rows."""

from typing import NamedTuple

import numpy as np

from fastsvm.losses import Loss
from fastsvm.solvers.sgd.feature_rates import FIRST_STEP
from fastsvm.sources import Block, CSRBlock, Source
from fastsvm.tuning import SGDTuning

__all__ = ["Lengths", "suitable_rate"]


class Lengths(NamedTuple):
    """Estimates of the lengths of the rows.

    `sq_norm` is the mean squared norm, with the constant feature of the intercept. `intercept_rate` is the square of
    that feature, which multiplies the intercept's learning rate; 0 if there is no intercept. `similarity` is the mean
    squared cosine of two rows. If it is large, a step on one row changes the scores of others.
    """

    sq_norm: float
    intercept_rate: float
    similarity: float

    @classmethod
    def of(cls, source: Source, weights: np.ndarray, fit_intercept: bool, tuning: SGDTuning) -> "Lengths":
        """Return estimates from a sample of the rows of positive weight."""
        used, most = np.flatnonzero(weights > 0), source.tuning.resident_rows
        if len(used) > most:
            used = used[np.linspace(0, len(used) - 1, most).astype(int)] if source.resident else used[:most]
        block = source.rows(used)
        with np.errstate(all="ignore"):  # the epochs report values that are not finite
            norms = _sq_norms(block)
            mean = float(np.average(norms, weights=weights[used]))
            some = np.linspace(0, len(used) - 1, min(tuning.paired, len(used))).astype(int)
            similarity = _similarity(block.take(some), norms[some])
        if not (0 < mean < np.inf and np.isfinite(similarity)):
            return cls(1.0, float(fit_intercept), 1.0)
        intercept_rate = fit_intercept * max(1.0, tuning.intercept_share * mean)
        return cls(mean + intercept_rate, intercept_rate, similarity)


def _sq_norms(block: Block) -> np.ndarray:
    if isinstance(block, CSRBlock):
        row = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        return np.bincount(row, block.data.astype(np.float64) ** 2, block.shape[0])
    values = block.dense(np.float32 if block.values.dtype == np.uint8 else block.values.dtype)
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)


def _similarity(block: Block, norms: np.ndarray) -> float:
    """Return the mean squared product of two different rows, relative to their mean squared norm squared."""
    m = len(norms)
    if m < 2:
        return 1.0
    mean = float(norms.mean())
    unit = float(np.exp2(-np.round(np.log2(mean) / 2))) if 0 < mean < np.inf else 1.0  # against overflow and underflow
    rows = block.user_array() if isinstance(block, CSRBlock) else block.dense(np.float64)
    rows = rows * (rows.dtype.type(unit) if rows.dtype.kind == "f" else unit)
    norms, mean = norms * unit**2, mean * unit**2
    products = rows @ rows.T
    squares = float(np.square(products.data if isinstance(block, CSRBlock) else products).sum())
    return max(0.0, squares - float(np.square(norms).sum())) / (m * (m - 1)) / max(mean**2, 1e-300)


def suitable_rate(lengths: Lengths, loss: Loss, batch_size: float, tuning: SGDTuning) -> float:
    """Return the initial learning rate; `batch_size` is infinite if a batch is all rows.

    A step on one row changes its score by the rate times its squared norm. This change should be a fraction of the
    margin. The fraction may be larger if the scores of other rows change less. A step on a mini-batch is a mean and
    may be longer, until it overshoots in the direction that the rows have in common or is unstable on a curved loss.
    """
    unlike = 1.0 if np.isinf(batch_size) else (tuning.similar / max(lengths.similarity, 1e-300)) ** 0.5
    smooth = loss.bounded and np.isfinite(loss.curvature)  # the next step reverts one that is too long
    gain = min(tuning.most_gain, max(1.0, unlike) * (min(1.0, 0.5 / loss.curvature) if smooth else FIRST_STEP))
    stable = not loss.bounded or (np.isinf(batch_size) and np.isfinite(loss.curvature))
    longest = 1 / loss.curvature if stable else gain * tuning.longest
    return min(longest, gain * batch_size) / lengths.sq_norm
