"""Products of long rows in float32: their rounding errors grow with the features summed at once, not with all."""

import numpy as np

from fastsvm.linalg.row_products import add_panel_products, panels_of


def test_errors_of_long_rows_are_those_of_short_sums():
    rng = np.random.default_rng(0)
    x, z = (rng.random((64, 16_384)).astype(np.float32) for _ in range(2))  # of one sign: partial sums are large
    panels = panels_of(z)
    out = np.empty((64, panels.shape[0] * panels.shape[2]), np.float32)
    add_panel_products(x, panels, out)
    exact = x.astype(np.float64) @ z.T.astype(np.float64)
    error = np.sqrt(np.mean((out[:, :64] / exact - 1) ** 2))
    # Of 64 sums of 256 features; of one sum of all it is 14.
    assert error < 3 * np.finfo(np.float32).eps
