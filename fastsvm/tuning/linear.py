"""Numbers of linear machines."""

from typing import NamedTuple

__all__ = ["LinearTuning"]


class LinearTuning(NamedTuple):
    """Which solver fits a linear machine.

    The first four say whether the solvers of these names may be chosen. Dual coordinate ascent solves what they do not.
    """

    weights: bool = True
    gram: bool = True
    newton: bool = True
    rounds: bool = True
    # Up to so many values of a table, and so many of its samples or features, whichever are fewer, one compiled call
    # that takes Newton steps on the weights is faster than epochs. This was found on tables of scikit-learn and made-up
    # ones.
    most_values: int = 1 << 20
    most_on_shorter_side: int = 320
    # A smaller `max_iter` asks for epochs to be seen, which such a call does not have.
    least_epochs: int = 100
    # The Gram matrix of up to so many samples is worth computing.
    most_gram_samples: int = 2048
    # With at least so many features, of which a piecewise linear loss leaves few variables free, the Gram matrix pays
    # for so many times as many samples as features.
    many_features: int = 64
    more_samples: int = 4
    # A table has at most so many features, whose Hessian costs less than epochs: on 24 tables of 300 to 784 features,
    # epochs of a squared loss took .9 to 75 times as long.
    table_features: int = 512
    # Of more values, a smooth loss is minimised by Newton's method with threads: found on tables of 115,000 to 900,000
    # values, where it took a quarter to nine tenths of the time of the compiled call.
    most_smooth_values: int = 1 << 17
    # Sparse rows with at most so many values in the mean column are learnt by rounds without sums over all features.
    # The first number is for a piecewise quadratic loss, the second for others.
    values_of_feature: int = 30
    values_of_smooth: int = 10
