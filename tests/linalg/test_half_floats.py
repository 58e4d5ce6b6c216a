"""Values in float16 become the same numbers in float32."""

import numpy as np
import pytest

from fastsvm.linalg import row_products
from fastsvm.linalg.row_products import as_float32


@pytest.mark.parametrize("by_bits", [True, False])
def test_all_values(by_bits, monkeypatch):
    monkeypatch.setattr(row_products, "HAS_HALF_FLOATS", by_bits and row_products.HAS_HALF_FLOATS)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = as_float32(halves.reshape(256, 256))
    assert found.dtype == np.float32 and found.flags.c_contiguous
    finite = ~np.isnan(halves)
    wanted = halves.astype(np.float32)
    np.testing.assert_array_equal(found.ravel()[finite].view(np.uint32), wanted[finite].view(np.uint32))
    assert np.isnan(found.ravel()[~finite]).all()
    np.testing.assert_array_equal(as_float32(halves.reshape(256, 256)[::2, 1::3]), wanted.reshape(256, 256)[::2, 1::3])
