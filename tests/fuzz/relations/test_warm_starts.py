"""A fit that starts from an earlier one, of other parameters and other rows, ends where a cold one does."""

from typing import Any

import numpy as np
import pytest
from fuzz.budget import chunks, examine
from fuzz.judges import Find
from hypothesis import strategies as st

from fastsvm.estimators.registry import ESTIMATORS

USUAL = 12
NAMES = ("linear", "linear-regressor", "logistic", "svc", "svr")
CHANGES: dict[str, Any] = {
    "fit_intercept": [True, False],
    "C": [0.01, 1.0, 100.0],
    "intercept_scaling": [1.0, 10.0],
    "standardize": [False, True],
    "loss": {
        "linear": ["hinge", "squared_hinge"],
        "linear-regressor": ["epsilon_insensitive", "squared_epsilon_insensitive"],
    },
    "penalty": {"logistic": ["l2", "l1"]},
    "epsilon": [0.0, 0.1],
    "gamma": [0.1, 1.0],
    "kernel": ["rbf", "linear"],
}


@st.composite
def chains(draw: Any) -> tuple[str, int, list[dict[str, Any]], list[int]]:
    """Draw an estimator, a seed, the parameters of one fit after the other, and the rows of each."""
    name = draw(st.sampled_from(NAMES))
    known = ESTIMATORS[name]().get_params()
    values = {key: each.get(name) if isinstance(each, dict) else each for key, each in CHANGES.items()}
    if name in ("svc", "svr"):  # SMO has an intercept
        values["fit_intercept"] = None
    choices = {key: st.sampled_from(each) for key, each in values.items() if each and key in known}
    fits = draw(st.lists(st.fixed_dictionaries(choices), min_size=2, max_size=3))
    return name, draw(st.integers(0, 2**31 - 1)), fits, [draw(st.sampled_from([30, 30, 31, 300])) for _ in fits]


def check(case: tuple[str, int, list[dict[str, Any]], list[int]]) -> None:
    """Raise `Find` if a warm start ends elsewhere than a cold one, by more than both certificates allow."""
    name, number, fits, lengths = case
    rng = np.random.default_rng(number)
    X = rng.normal(size=(max(lengths), 6)) + 0.5
    y = X @ rng.normal(size=6) + rng.normal(size=len(X))
    y = y if name in ("linear-regressor", "svr") else (y > np.median(y)).astype(int)
    common = {"tol": 1e-6, "max_iter": 100_000}
    model = ESTIMATORS[name](warm_start=True, **common)
    for fit, n in zip(fits, lengths, strict=True):
        model.set_params(**fit).fit(X[:n], y[:n])
        cold = ESTIMATORS[name](**common, **fit).fit(X[:n], y[:n])
        if not (model.converged_ and cold.converged_):
            raise Find(f"{model.stop_reason_}, cold {cold.stop_reason_}; {case}")
        apart = abs(model.objective_ - cold.objective_)
        if apart > model.duality_gap_ + cold.duality_gap_ + 1e-9 * abs(cold.objective_):
            raise Find(f"objective_ {model.objective_}, cold {cold.objective_}; {case}")
        is_centred = fit.get("standardize", False)  # then the intercept has the means
        if not (fit.get("fit_intercept", True) or is_centred) and np.any(model.intercept_):
            raise Find(f"intercept_ {model.intercept_} without one; {case}")


@pytest.mark.parametrize(("chunk", "count"), chunks(usual=USUAL))
def test_a_warm_start_ends_where_a_cold_one_does(chunk, count):
    examine(chains(), check, chunk, count)
