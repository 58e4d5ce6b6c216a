"""Learning rates by feature, from the gradients so far and the lengths of the features.

Step
    A weight after t steps is w = sign(v) max(0, |v| - l1 t) / (h + l2 t). In step t = 0, 1, ... with the gradient g of
    the loss it moves by
        v ← v + w (h' - h) - g,  h ← h'
    where h' differs from h only if g is not zero:
        s ← s + (u g)²,  h' = h₀ + √s / (u max(η, |w|))
    Without h this is the rate of Pegasos. It is the proximally regularised leader, of which an L1 penalty leaves few
    weights, and an untouched weight takes all its penalties at once.

Lengths
    u = 1 / (σ √m) for a feature whose nonzero values have the root mean square σ, with m nonzero values a row. The
    first step of a weight is no longer than η = u times the size of a score. Thus a feature that is measured in another
    unit takes the same steps. A weight that has grown beyond η moves by a share of itself, for it seems to need longer
    steps. The floor h₀ keeps the first steps of features that occur together from overshooting. It is small for rare
    features.

After
    Duchi, Hazan and Singer (2011), Adaptive subgradient methods; McMahan (2011), Follow-the-regularized-leader and
    mirror descent; Ross, Mineiro and Langford (2013), Normalized online learning; Ivgi, Hinder and Carmon (2023),
    DoG is SGD's best friend, for the share of the weight.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.files.storable import storable

_PARTS = 2  # A window has so many parts, whose sums are added in order, so that bits do not depend on the threads.
FIRST_STEP = 0.3
"""The first step changes a score by so many sizes of a score: that of the intercept, and those of one rate for all."""


@storable("sgd feature lengths")
class FeatureLengths(NamedTuple):
    """Sums over the rows so far, of which one of weight 2 counts as two.

    `counts` has the number of nonzero values of each feature, and `squares` their sum of squares.
    """

    n_rows: float
    counts: np.ndarray
    squares: np.ndarray

    def rates(self, first: float, score: float, dtype: np.dtype) -> "FeatureRates":
        """Return the rates for scores of the size `score`.

        The first rate of features of length 1 that always occur is `first` divided by the nonzero values of a row.
        """
        n_values = max(1.0, float(self.counts.sum()) / self.n_rows)
        with np.errstate(all="ignore"):  # the epochs report values that are not finite
            length = np.sqrt(self.squares / np.where(self.counts > 0, self.counts, 1.0))
            unit = 1 / (np.where(length > 0, length, 1.0) * n_values**0.5)
            floor = self.squares / self.n_rows * (n_values / first)
            return FeatureRates(unit.astype(dtype), floor.astype(dtype), score)


class FeatureRates(NamedTuple):
    """What decides the rates of features beside their gradients.

    `unit` is u of each feature, weights that change a score by one in all. `floor` is h₀, and `score` the size of a
    score.
    """

    unit: np.ndarray
    floor: np.ndarray
    score: float

    @classmethod
    def none(cls, dtype: np.dtype) -> "FeatureRates":
        """Return rates for no feature, where one rate serves all."""
        return cls(np.empty(0, dtype), np.empty(0, dtype), 0.0)


def added_lengths(
    lengths: FeatureLengths | None,
    add: Callable[[int, int, np.ndarray], None],
    weights: np.ndarray,
    n_features: int,
    pool: Pool,
) -> FeatureLengths:
    """Return the lengths with more rows, of which each has a weight.

    `add(start, stop, sums)` adds the counts and squares of some of them to sums, shape (n_features, 2).
    """
    runs = list(spans(len(weights), max(1, -(-len(weights) // _PARTS))))
    sums = np.zeros((len(runs), n_features, 2))
    pool.run(lambda k, start, stop: add(start, stop, sums[k]), [(k, *run) for k, run in enumerate(runs)])
    counts, squares = sums.sum(axis=0).T.copy()
    n_rows = float(weights.sum())
    if lengths is None:
        return FeatureLengths(n_rows, counts, squares)
    return FeatureLengths(lengths.n_rows + n_rows, lengths.counts + counts, lengths.squares + squares)
