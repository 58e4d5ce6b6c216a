"""What a search proves of all C of a range holds for exact fits, and so do the bounds of their scores."""

import pytest
from certified import look_at_bounds, look_at_search
from fuzz.budget import SEED, chunks

USUAL = 12


@pytest.mark.parametrize(("chunk", "count"), chunks(USUAL))
def test_no_exact_fit_is_outside_the_bounds(chunk, count):
    for k in range(count):
        seed = SEED + 200 * chunk + k
        assert look_at_bounds(seed) <= 1, seed
        look_at_search(seed)
