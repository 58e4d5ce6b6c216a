"""Do estimated bounds hold?"""

from bench.harness.data import Data
from bench.millions.coverage import counted, problems
from bench.millions.referee import exact_optimum
from fastsvm.estimators.nystroem import exact_bounds


def test_estimated_bounds_are_below_what_they_estimate():
    (_, parameters, X, y), before = next(problems()), exact_bounds._affordable
    optimum = exact_optimum(parameters, Data(X, y, X[:0], y[:0]))[1]
    found = counted(parameters, X, y, 20, range(20), optimum)
    assert found.n_estimates == 20 == found.below_optimum and found.below_rigorous >= 19
    assert 0.3 < found.ratio < 1 and 0 < found.rigorous < 1 and before == exact_bounds._affordable
