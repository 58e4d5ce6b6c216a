"""Every solver of SVC, by name, and fits with it."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC

EXACT = {
    "smo": {},
    "coordinate": {"solver": "coordinate"},
    "coordinate, no offset": {"solver": "coordinate", "fit_intercept": False},
    "coordinate, random": {"solver": "coordinate", "selection": "random", "random_state": 0},
    "primal": {"solver": "primal", "loss": "squared_hinge"},
    "primal, no offset": {"solver": "primal", "loss": "squared_hinge", "fit_intercept": False},
}
RATES = {
    "coordinate, rate": {"solver": "coordinate", "learning_rate": 5e-3, "max_iter": 40},
    "primal, rate": {"solver": "primal", "learning_rate": 1e-3, "max_iter": 40},
    "primal, squared, rate": {"solver": "primal", "loss": "squared_hinge", "learning_rate": 1e-4, "max_iter": 40},
}
ALL = EXACT | RATES
WITHOUT_SMO = {name: given for name, given in ALL.items() if name != "smo"}

exact = pytest.mark.parametrize("name", EXACT)
every = pytest.mark.parametrize("name", ALL)
added = pytest.mark.parametrize("name", WITHOUT_SMO)


def model(name, **parameters):
    tight = {} if name in RATES else {"tol": 1e-8}
    return SVC(**({"gamma": 0.3} | tight | ALL[name] | parameters))


def fit(name, X, y, weight=None, **parameters):
    """Fit. With a learning rate, `max_iter` ends the fit."""
    made = model(name, **parameters)
    if name not in RATES:
        return made.fit(X, y, weight)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        return made.fit(X, y, weight)


def same(found, wanted, X, rel=1e-6, atol=2e-4):
    assert found.objective_ == pytest.approx(wanted.objective_, rel=rel)
    np.testing.assert_array_equal(found.classes_, wanted.classes_)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=atol)
