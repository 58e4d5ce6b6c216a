"""Exact products of bytes by each of the instructions that the processor has."""

import pytest

from fastsvm._compiled import processor
from fastsvm._compiled.byte_tile import INSTRUCTIONS, PRODUCTS

PRODUCTS_OF_MANY_SIZES = """
import numpy as np
from fastsvm._compiled.byte_tile import INSTRUCTIONS, PRODUCTS
from fastsvm._compiled.threads import Pool
from fastsvm.kernel_matrix.gram import Gram
from fastsvm.kernels import Linear
from fastsvm.kernel_matrix.pairwise import Uint8Pairwise
from fastsvm.sources import as_source

print(next(name for name, kind in INSTRUCTIONS.items() if kind == PRODUCTS))
rng = np.random.default_rng(0)
for n, d in ((1, 4), (2, 5), (15, 6), (17, 7), (24, 64), (25, 65), (49, 130), (300, 3073)):
    X = rng.integers(0, 256, (n, d), dtype=np.uint8)
    X[0], X[-1] = 0, 255
    found = np.full((n, n), np.nan)
    with Pool.open() as pool:
        Gram(Uint8Pairwise(Linear(), np.float64), as_source(X), pool).rows(np.arange(n), found, np.arange(n))
    wide = X.astype(np.int64)
    assert (found == wide @ wide.T).all(), (n, d)
"""


@pytest.mark.skipif(PRODUCTS is None, reason="the processor has no byte products")
@pytest.mark.parametrize(("level", "kind"), [("x86-64-v3-vnni", "avxvnni"), ("x86-64-v3", "madd")])
def test_each_instruction_gives_exact_products(level, kind, importing, tmp_path):
    if level not in [each.name for each in processor.levels()]:
        pytest.skip("the processor has no such level")
    if INSTRUCTIONS[kind] == PRODUCTS:
        pytest.skip("all other tests use it")
    given = importing.start(PRODUCTS_OF_MANY_SIZES, tmp_path, FASTSVM_PROCESSOR=level)
    assert importing.output(given).split() == [kind]
