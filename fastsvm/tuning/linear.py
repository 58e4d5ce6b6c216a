"""Numbers of linear machines."""

from typing import NamedTuple


class LinearTuning(NamedTuple):
    """Which solver fits a linear machine.

    The first four say whether the solvers of these names may be chosen. Dual coordinate ascent solves what they do not.
    """

    weights: bool = True
    gram: bool = True
    newton: bool = True
    rounds: bool = True
    # Gram matrices of blocks, or Hessians, take at most one of so many parts of the memory. A window on disk takes half
    # of a part, as three are there at once.
    memory_share: int = 4
    # A window of rows in memory, or the passes of a round, are so many multiplications. Between them the time is asked.
    step_work: int = 1 << 31
    # Up to so many values of a table, and so many of its samples or features, whichever are fewer, one compiled call
    # that takes Newton steps on the weights is faster than epochs. This was found on tables of scikit-learn and made-up
    # ones.
    most_values: int = 1 << 20
    most_on_shorter_side: int = 320
    # A smaller `max_iter` asks for epochs to be seen, which such a call does not have.
    least_epochs: int = 100
    # The Gram matrix of up to so many samples is worth computing.
    most_gram_samples: int = 2048
    # Equal rows of tables of at most so many values are merged. Of more values, a smooth loss is minimised by Newton's
    # method with threads: found on tables of 115,000 to 900,000 values, where it took a quarter to nine tenths of the
    # time of the compiled call.
    small_values: int = 1 << 17
    # A fit of at most so many values in all scores ends within milliseconds, and needs no thread that can be stopped.
    short_values: int = 1 << 15
    # Newton steps on augmented Lagrangians may follow epochs.
    lagrangian: bool = True
    # Epochs solve subproblems with a proximal term, whose metric comes from the rows.
    proximal: bool = True
    # The metric is weakened where the gap falls slowly.
    metric_changes: bool = True
    # There are at most so many sweeps over a block of dense rows before the weights change.
    sweeps: int = 3
    # Dense rows are processed in blocks with a Gram matrix, else one by one.
    blocks: bool = True
    # A block has so many rows, or twice as many if a row has as many features, or half as many if its Gram matrix is
    # computed in each epoch.
    block_rows: int = 64
    # The Gram matrices of blocks are cached as far as the memory allows.
    cached_grams: bool = True
    # A row whose variables do not change is skipped for at most so many passes.
    longest_pause: int = 8
    # Where so many rounds do not halve the gap, epochs or Newton steps follow, if they can.
    slow_rounds: int = 10
    # A window of rows on disk is passed at most so often while it is in memory.
    most_visits: int = 4
    # The Hessian of at most so many features is computed and kept whole. Of more, products with the Hessian take less
    # time for ½‖w‖², whose directions then come from conjugate gradients, and ‖w‖₁ has a working set, to which as many
    # may be added at once. Squared losses of tables with more features are left to epochs, which took .9 to 75 times as
    # long on 24 tables of 300 to 784 features.
    hessian_features: int = 512
    conjugate_gradients: bool = True
    working_sets: bool = True
    # A Hessian keeps what rows whose curvature hardly changes have added to it.
    kept_hessian: bool = True
    # Sweeps over the weights of an L1 penalty alternate with Newton steps on the face of the orthant.
    faces: bool = True
    # Sparse rows with at most so many values in the mean column are learnt by rounds without sums over all features.
    # The first number is for a piecewise quadratic loss, the second for others.
    values_of_feature: int = 30
    values_of_smooth: int = 10
