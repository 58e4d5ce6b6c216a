"""Paths of a fit that a switch turns off: without each, fits end with the same optimum and a certificate."""

import numpy as np
import pytest

from bench.paired.paths import PATHS, weight_of
from fastsvm import SVC, SVR
from fastsvm.tuning import changed, tuned

KERNEL = [path for path in PATHS if path.name.startswith("kernel")]
named = pytest.mark.parametrize("path", KERNEL, ids=[path.name for path in KERNEL])


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(0)
    X = np.round(2 * rng.normal(size=(3200, 4)))  # with equal rows
    y = rng.integers(0, 3, 240)
    images = np.clip(rng.normal(rng.integers(90, 160, (3, 70))[y], 60), 0, 255).astype(np.uint8)
    return [
        (SVC(C=3.0), X, X[:, 0] * X[:, 1] + rng.normal(size=3200) > 0),
        (SVC(), images, y),
        (SVR(C=3.0), X[:150], X[:150, 0] + rng.normal(size=150)),
    ]


@named
def test_without_a_path_the_optimum_is_the_same(path, problems):
    for machine, X, y in problems:
        usual = machine.fit(X, y)
        wanted, gap = usual.objective_, usual.duality_gap_
        with tuned(changed(path.off)):
            found = machine.fit(X, y)
        assert found.converged_ and found.kkt_violation_ <= machine.tol
        assert abs(found.objective_ - wanted) <= found.duality_gap_ + gap


@pytest.mark.parametrize("path", PATHS, ids=[path.name for path in PATHS])
def test_the_files_of_a_path_exist(path):
    assert len(weight_of(path).modules) == len(path.files)
