"""What linear models say of themselves, computed anew from the arrays that they return."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor

_RNG = np.random.default_rng(0)
_N = 90
_WHOLE = _RNG.integers(0, 256, (_N, 7)).astype(np.uint8)
_UNSCALED = _RNG.normal(size=(_N, 7)) * 10.0 ** np.arange(-2, 5)
_SPARSE = sparse.csr_matrix(np.where(_RNG.random((_N, 7)) < 0.6, _UNSCALED / 3, 0))
ROWS = {
    "uint8": _WHOLE,
    "float32": (_UNSCALED / 3).astype(np.float32),
    "float64": _UNSCALED,
    "csr float32": _SPARSE.astype(np.float32),
    "csr float64": _SPARSE,
}
LABELS = {k: (_RNG.permutation(_N) * k) // _N for k in (2, 3)}
WEIGHTS = {"equal": None, "uneven": 10.0 ** _RNG.uniform(-3, 3, _N) * (_RNG.random(_N) > 0.1)}


def objective(model, X, y, weight):
    """Return what the returned weights are worth for rows as passed."""
    X = (X.toarray() if sparse.issparse(X) else X).astype(np.float64)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    scores = X @ coef.T + intercept
    if model.standardize:  # what is kept small are the weights of the standardised features
        intercept, coef = intercept + coef @ model._shift, coef / model._scale
    size = (np.square(coef).sum() + np.square(intercept / model.intercept_scaling).sum()) / 2
    costs = model.C * (np.ones(len(y)) if weight is None else weight)
    if isinstance(model, LinearSVR):
        losses = np.maximum(np.abs(scores[:, 0] - y) - model.epsilon, 0)
    elif model.multi_class == "ovr":
        own = y[:, None] == (np.arange(3) if scores.shape[1] > 1 else 1)
        losses = np.maximum(1 - np.where(own, 1, -1) * scores, 0)
    else:
        if scores.shape[1] == 1:  # the difference of two scores
            scores, size = np.hstack([-scores, scores]) / 2, size / 2
        excess = scores - scores[np.arange(len(y)), y][:, None] + (y[:, None] != np.arange(scores.shape[1]))
        losses = excess.max(axis=1) if model.multi_class == "crammer_singer" else np.maximum(excess, 0).sum(axis=1)
        losses -= 0 if model.multi_class == "crammer_singer" else np.maximum(excess[np.arange(len(y)), y], 0)
    if model.loss.startswith("squared") and getattr(model, "multi_class", "ovr") == "ovr":
        losses = np.square(losses)
    return float(size + costs @ losses.reshape(len(y), -1).sum(axis=1))


LOSSES = [("hinge", "ovr"), ("squared_hinge", "ovr"), ("hinge", "crammer_singer"), ("hinge", "weston_watkins")]
FITS = [(LinearSVC, loss, coupled, k) for loss, coupled in LOSSES for k in (2, 3)]
FITS += [(LinearSVR, f"{word}epsilon_insensitive", None, 3) for word in ("", "squared_")]
OF_TYPE = {  # all losses have rows of float64, dense and sparse; other types have each kind of step
    "uint8": ["ovr"],
    "float32": ["ovr", "crammer_singer"],
    "csr float32": ["ovr", "weston_watkins"],
}


def fits_of(rows):
    """Return the fits to rows of a type."""
    if rows not in OF_TYPE:
        return FITS
    return [fit for fit in FITS if fit[1] == "hinge" and fit[2] in OF_TYPE[rows]]


CASES = [  # each pair of rows and C, of weights and C, and of weights and scaling
    (rows, list(WEIGHTS)[(i + k) % 2], i % 2 > 0, C)
    for i, rows in enumerate(ROWS) for k, C in enumerate([1e-3, 1e6])
]  # fmt: skip


@pytest.mark.parametrize(("rows", "weights", "standardize", "C"), CASES)
def test_the_objective_is_that_of_the_returned_weights(rows, weights, standardize, C):
    X, weight = ROWS[rows], WEIGHTS[weights]
    common = {"C": C, "standardize": standardize, "max_iter": 8, "random_state": 0, "intercept_scaling": 2.0}
    for kind, loss, coupled, k in fits_of(rows):
        special = {"epsilon": 0.3} if kind is LinearSVR else {"multi_class": coupled}
        model, y = kind(loss=loss, **special, **common), LABELS[k] / 2.0 if kind is LinearSVR else LABELS[k]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(X, y, sample_weight=weight)
        assert model.objective_ == pytest.approx(objective(model, X, y, weight), rel=1e-9), model
        assert model.duality_gap_ == model.objective_ - model.dual_objective_
        assert [one.category for one in told] == ([] if model.converged_ else [ConvergenceWarning])
        assert not model.converged_ or model.duality_gap_ <= model.tol * model.objective_


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_the_objective_of_descent_is_computed_in_double_precision(rows, kind):
    X, y = ROWS[rows], LABELS[2]
    X = X if rows in ("uint8", "float64") else X / 100
    model = kind(loss="squared_error" if kind is SGDRegressor else "hinge", max_iter=3, tol=None, random_state=0).fit(
        X, y
    )
    scores = np.asarray((X.toarray() if sparse.issparse(X) else X).astype(np.float64) @ np.ravel(model.coef_))
    scores = scores + model.intercept_
    losses = np.maximum(1 - (2 * y - 1) * scores, 0) if kind is SGDClassifier else np.square(scores - y) / 2
    wanted = losses.mean() + model.alpha / 2 * np.square(model.coef_).sum()
    assert model.objective_ == pytest.approx(wanted, rel=1e-11)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
def test_large_costs_of_unscaled_rows_warn_of_nothing_but_the_gap(kind):
    rng = np.random.default_rng(0)
    for d, length in ((3, 1e20), (22, 1e3), (15, 1e5)):
        X = rng.normal(size=(60, d)) * length * 10.0 ** rng.uniform(-3, 3, d)
        squared = "squared_hinge" if kind is LinearSVC else "squared_epsilon_insensitive"
        for C in (1.0, 1e6, 1e11):
            kind(loss=squared, C=C, random_state=0, max_iter=300).fit(X, LABELS[2][:60])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [38, 44])
def test_large_costs_do_not_make_a_kernel_indefinite(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(300, 900)), int(rng.integers(1, 10))
    X = rng.normal(size=(n, d))
    X = np.round(X) if seed == 44 else X
    weight = 10.0 ** rng.uniform(-6, 6, n)
    model = SVC(solver="primal", loss="squared_hinge", C=1e8, kernel="linear", memory=1_500_000, max_iter=60)
    model.fit(X, X[:, 0] > np.median(X[:, 0]), sample_weight=weight)
    assert np.isfinite(model.objective_)
