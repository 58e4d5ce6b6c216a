"""Numbers of stochastic gradient descent."""

from typing import NamedTuple

__all__ = ["SGDTuning"]


class SGDTuning(NamedTuple):
    """How steps on mini-batches are taken. Each of the first five says whether a way may be taken."""

    # Features that occur in one row only are merged to one feature a row.
    private: bool = True
    # Steps on sparse rows touch only the columns in which a batch has nonzero values; else rows are made dense.
    lazy: bool = True
    # A loop of its own takes such steps on batches of one row, with learning rates by feature.
    single_rows: bool = True
    # Scores whose losses are apart take their steps apart, so that threads share them.
    apart: bool = True
    # Losses of a kind share machine code, in which a branch chooses one for each batch.
    shared_losses: bool = True
    # Steps are lazy if rows have at least so many features for each nonzero value.
    features_of_value: int = 8
