"""Data of searches, and a look at what fits share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from fastsvm.estimators.search.shared_fits import SharedFits
from fastsvm.tuning import changed, tuned


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def ten_digits():
    X, y = load_digits(return_X_y=True)
    return X[:1100] / 16, y[:1100]


@pytest.fixture(scope="module")
def digits(ten_digits):
    """Return rows of four classes: these are six problems."""
    X, y = ten_digits
    few = np.flatnonzero(y[:500] < 4)
    return X[few], y[few]


@pytest.fixture
def shared(monkeypatch):
    """Return a list to which every fit that shared is added; fits of few samples share, too."""
    parts, fit = [], SharedFits.fit

    def recorded(self, group, train_score=False):
        for found in fit(self, group, train_score):
            parts.append(found[:2])
            yield found

    monkeypatch.setattr(SharedFits, "fit", recorded)
    with tuned(changed({"search": {"many_pairs": 45}})):
        yield parts
