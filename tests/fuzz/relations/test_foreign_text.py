"""Text that other programs wrote is read as it was written."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.budget import chunks, examine
from fuzz.judges import Find
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

import fastsvm
from fastsvm.formats import convert

USUAL = 20


@st.composite
def texts(draw: Any) -> tuple[int, int, int, bool, float, bool]:
    """Draw the seed, rows, features, whether they are counted from 0, density, and whether there is a comment."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    density = draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))
    return draw(st.integers(0, 2**31 - 1)), n, d, draw(st.booleans()), density, draw(st.booleans())


def check(case: tuple[int, int, int, bool, float, bool]) -> None:
    """Raise `Find` if text is read as other rows than those that were written, the first index being said."""
    number, n, d, from_zero, density, comment = case
    rng = np.random.default_rng(number)
    X = np.round(rng.normal(size=(n, d)), 3) * (rng.random((n, d)) < density)
    y = rng.integers(0, 2, n)
    with tempfile.TemporaryDirectory() as folder:
        path, to = Path(folder) / "rows.svm", Path(folder) / "rows.h5"
        words = "made by somebody" if comment else None
        dump_svmlight_file(X, y, str(path), zero_based=from_zero, comment=words)
        convert(path, to, format="svmlight", n_features=d, first_index=0 if from_zero else 1, shuffle=False)
        with fastsvm.open_hdf5(to) as data:
            found = data.X.in_memory().block.dense(np.float64)
        if not np.allclose(found, X, rtol=1e-6):
            raise Find(f"{case}: {found.tolist()} instead of {X.tolist()}")


@pytest.mark.parametrize(("chunk", "count"), chunks(usual=USUAL))
def test_foreign_text_is_read_as_it_was_written(chunk, count):
    examine(texts(), check, chunk, count)
