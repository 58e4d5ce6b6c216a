import numpy as np
import pytest

from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernel_matrix.pairwise import RealPairwise, Rows
from fastsvm.kernel_matrix.shared import SharedKernel
from fastsvm.kernels import RBF
from fastsvm.sources import as_source


@pytest.mark.parametrize("n_slots", [1, 7, 30])
def test_a_part_is_the_kernel_among_its_rows(n_slots):
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(30, 3)), rng.permutation(30)[:12]
    K = np.exp(-0.5 * ((X[rows][:, None] - X[rows]) ** 2).sum(axis=2))
    with Pool.open() as pool:
        gram = Gram(RealPairwise(RBF(0.5), np.float64, None, False), as_source(X), pool)
        shared = SharedKernel(gram, np.empty(n_slots * 30 * 8, np.uint8), np.arange(30))
        part = shared.part(rows)
        out, some = np.zeros((12, 12)), rng.permutation(12)[:8]
        part.rows_beside(some, Rows(out, some, 0), np.full(12, -1))
        np.testing.assert_allclose(out[some], K[some], rtol=1e-12)
        square = np.zeros((8, 8))
        part.among(some, 3, square)
        np.testing.assert_allclose(square[3:], K[np.ix_(some[3:], some)], rtol=1e-12)
        assert not square[:3].any()
        coef = rng.normal(size=8)
        np.testing.assert_allclose(part.weighted_sum(some, coef), coef @ K[some], atol=1e-12)
        np.testing.assert_allclose(part.weighted_sum(some, coef, some[:2]), coef @ K[some][:, some[:2]], atol=1e-12)
