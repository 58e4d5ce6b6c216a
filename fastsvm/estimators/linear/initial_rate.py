"""How long the steps of gradient descent may be, judged by some thousand rows."""

from typing import NamedTuple

import numpy as np

from fastsvm.losses import Loss
from fastsvm.sources import Block, CSRBlock, Source

__all__ = ["Lengths", "suitable_rate"]

_SAMPLE, _PAIRED = 4096, 128  # rows whose lengths are measured, and that are compared with each other
_GAIN, _MOST_GAIN = 0.3, 3.0  # of the score of a row, by a step on it alone, in units of the margin
_ALIKE = 0.1  # likeness of rows from which on the gain is the least
_LONGEST = 100 / 3  # steps on a batch, in multiples of one on a row
_OFFSET_SHARE = 0.1  # of the rows' squared length, of the feature whose weight is the offset


class Lengths(NamedTuple):
    """What is known of the rows.

    Attributes
    ----------
    sq_norm : float
        Mean squared length, with the constant feature of the offset.
    offset : float
        Square of that feature, 0 if there is no offset.
    likeness : float
        Mean square of the cosine of two rows, roughly: large if a step on one changes the scores of the others.
    """

    sq_norm: float
    offset: float
    likeness: float

    @classmethod
    def of(cls, source: Source, weights: np.ndarray, fit_intercept: bool) -> "Lengths":
        """Measure some of the rows of positive weight."""
        used = np.flatnonzero(weights > 0)
        if len(used) > _SAMPLE:
            used = used[np.linspace(0, len(used) - 1, _SAMPLE).astype(int)] if source.resident else used[:_SAMPLE]
        block = source.rows(used)
        with np.errstate(all="ignore"):  # of what is not finite is told when the rows are visited
            norms = _sq_norms(block)
            mean = float(np.average(norms, weights=weights[used]))
            some = np.linspace(0, len(used) - 1, min(_PAIRED, len(used))).astype(int)
            likeness = _likeness(block.take(some), norms[some])
        if not (0 < mean < np.inf and np.isfinite(likeness)):
            return cls(1.0, float(fit_intercept), 1.0)
        offset = fit_intercept * max(1.0, _OFFSET_SHARE * mean)
        return cls(mean + offset, offset, likeness)


def _sq_norms(block: Block) -> np.ndarray:
    if isinstance(block, CSRBlock):
        row = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        return np.bincount(row, block.data.astype(np.float64) ** 2, block.shape[0])
    values = block.dense(np.float32 if block.values.dtype == np.uint8 else block.values.dtype)
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)


def _likeness(block: Block, norms: np.ndarray) -> float:
    """Return the mean square of the products of two different rows, in units of that of their mean squared length."""
    m = len(norms)
    if m < 2:
        return 1.0
    mean = float(norms.mean())
    unit = float(np.exp2(-np.round(np.log2(mean) / 2))) if 0 < mean < np.inf else 1.0  # of rows that are long or short
    rows = block.user_array() if isinstance(block, CSRBlock) else block.dense(np.float64)
    rows = rows * (rows.dtype.type(unit) if rows.dtype.kind == "f" else unit)
    norms, mean = norms * unit**2, mean * unit**2
    products = rows @ rows.T
    squares = float(np.square(products.data if isinstance(block, CSRBlock) else products).sum())
    return max(0.0, squares - float(np.square(norms).sum())) / (m * (m - 1)) / max(mean**2, 1e-300)


def suitable_rate(lengths: Lengths, loss: Loss, batch_size: float) -> float:
    """Return a first rate; the batch size is infinite if a batch is all rows.

    A step on one row changes its own score by the rate times its squared length, which should be a part of the margin:
    the larger the less the scores of other rows are changed. The step of a batch, which is a mean, may be longer, until
    it goes too far in the direction that the rows have in common or, where the loss is curved, is not stable.
    """
    unlike = 1.0 if np.isinf(batch_size) else (_ALIKE / max(lengths.likeness, 1e-300)) ** 0.5
    smooth = loss.bounded and np.isfinite(loss.curvature)  # a step too long is taken back by the next
    gain = min(_MOST_GAIN, max(1.0, unlike) * (min(1.0, 0.5 / loss.curvature) if smooth else _GAIN))
    stable = not loss.bounded or (np.isinf(batch_size) and np.isfinite(loss.curvature))
    longest = 1 / loss.curvature if stable else gain * _LONGEST
    return min(longest, gain * batch_size) / lengths.sq_norm
