"""LinearSVR: weights of samples, and what is refused."""

import numpy as np
import pytest
from linear_svms import REGRESSION, made, objectives, of_liblinear

from fastsvm import LinearSVR


@pytest.mark.parametrize("name", REGRESSION)
def test_weights_of_rows_of_regressions_are_those_of_liblinear(name, line):
    X, y = line
    weight = np.random.default_rng(0).exponential(size=120)
    model = made(name).fit(X, y, sample_weight=weight)
    wanted = objectives(name, of_liblinear(name, model).fit(X, y, sample_weight=weight), X, y, weight)
    assert model.objective_ == pytest.approx(wanted.sum(), rel=1e-6)


def test_bad_parameters_of_regressors_are_named(line):
    for value in (-0.1, None, np.nan):
        with pytest.raises(ValueError, match="epsilon"):
            LinearSVR(epsilon=value).fit(*line)


def test_targets_that_are_not_numbers_are_refused(line):
    X, y = line
    with pytest.raises(ValueError, match="y contains NaN"):
        LinearSVR().fit(X, np.where(np.arange(120) == 3, np.nan, y))
    with pytest.raises(ValueError, match="strings"):
        LinearSVR().fit(X, np.full(120, "a"))
