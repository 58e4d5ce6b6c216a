"""Numbers of stochastic gradient descent."""

from typing import NamedTuple

__all__ = ["SGDTuning"]


class SGDTuning(NamedTuple):
    """How steps on mini-batches are taken. Each of the first four says whether a way may be taken."""

    # Features that occur in one row only are merged to one feature a row.
    private: bool = True
    # Steps on rows of few nonzero values touch only their columns; else rows are made dense.
    lazy: bool = True
    # A loop of its own takes such steps on batches of one row.
    single_rows: bool = True
    # Scores whose losses are apart take their steps apart, so that threads share them.
    apart: bool = True
    # Features are merged if the problem lacks this share of them then.
    private_share: float = 0.25
    # Rows of few nonzero values have more than so many features for each of them.
    features_of_value: int = 8
    # With a loss of all classes at once they have more than so many: at 40, batches of dense rows took .4 to .6 of the
    # time, at 80 as long, at 160 up to twice as long.
    features_of_classes: int = 80
    # A thread takes the steps of so many scores.
    scores: int = 8
    # A mini-batch has so many rows by default, and fewer if there are few rows, of which equal ones are merged.
    batch: int = 32
    few_rows: int = 256
    batch_of_few: int = 8
    # A window of rows in memory has so many bytes, between two readings of the clock.
    window_bytes: int = 32 << 20
    # An epoch is taken to have so many steps where the amount of data is unknown.
    stream_steps: int = 1000
    # A step on a row alone changes its score by `FIRST_STEP` sizes of a score, and by so much at most if others are
    # unlike it: if their mean squared cosine is below `similar`, which is measured on `paired` rows.
    most_gain: float = 3.0
    similar: float = 0.1
    paired: int = 128
    # A step on a batch is at most so many times as long as one on a row.
    longest: float = 100 / 3
    # The square of the constant feature, whose weight is the intercept, is this share of the rows' squared norm.
    intercept_share: float = 0.1
    # First rates by feature are divided by this. CIFAR-10 would have a larger one, random walks a smaller one.
    caution: float = 3.0
