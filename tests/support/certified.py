"""Searches with a guarantee beside exact fits at many other C."""

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from fastsvm import LinearSVC, LogisticRegression, SVCSearch
from fastsvm._compiled.threads import Pool
from fastsvm.estimators.search.certified import CertifiedPath
from fastsvm.estimators.search.shared_fits import Split

__all__ = ["drawn", "look_at_bounds", "look_at_search"]


def drawn(seed):
    """Return samples, labels, an estimator, an interval of C, and splits."""
    rng = np.random.default_rng(seed)
    k, n, d = rng.integers(2, 4), rng.integers(30, 120), rng.integers(1, 6)
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 0.5)
    z = X @ rng.normal(size=(d, k)) + rng.normal(size=k) + X.std() * rng.exponential(1) * rng.gumbel(size=(n, k))
    y = z.argmax(axis=1)
    y[: 4 * k] = np.repeat(np.arange(k), 4)
    settings = {"fit_intercept": bool(rng.integers(2)), "random_state": 0}
    losses = [LinearSVC(loss="squared_hinge"), LinearSVC(loss="hinge"), LogisticRegression()]
    least = 10 ** rng.uniform(-3, 1)
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    return X, y, losses[rng.integers(3)].set_params(**settings), (least, least * 10 ** rng.uniform(0.1, 1.5)), splits


def exact(model, C, X, y, split):
    """Return decision values of all samples by a fit of the training samples, and how far they may be from exact."""
    one = clone(model).set_params(C=C, tol=1e-11).fit(X[split[0]], y[split[0]])
    lengths = np.sqrt((X**2).sum(axis=1) + 1)
    return one.decision_function(X), np.sqrt(2 * one.duality_gap_) * lengths + 1e-9, one.predict(X)


def look_at_bounds(seed):
    """Compare the bounds of scores with those of exact fits; return the largest share of the room that is taken."""
    X, y, model, (least, most), splits = drawn(seed)
    models = {k: clone(model).set_params(C=C) for k, C in enumerate((least, most))}
    data, share = clone(model)._checked(X, y, None), 0.0
    with Pool.open() as pool:
        path = CertifiedPath(models, data, [Split.of(*split) for split in splits], pool, (1e-9, 2))
        ends = []
        path._solved = lambda *given: ends.append(CertifiedPath._solved(path, *given)) or ends[-1]
        list(path.fit(path.groups()))
        for (first, last), low, high in list(path.pieces(*ends))[::5]:
            C = np.sqrt(first * last)
            for k, split in enumerate(splits):
                scores, error, _ = exact(model, C, X, y, split)
                scores, error = np.atleast_2d(scores.T), error[None]
                assert (low[k] - error <= scores).all() and (scores <= high[k] + error).all()
                middle, room = (low[k] + high[k]) / 2, (high[k] - low[k]) / 2
                share = max(share, ((np.abs(scores - middle) - error) / room).max())
    return share


def look_at_search(seed, n_values=12):
    """Compare what a search proves with the errors of exact fits."""
    X, y, model, (least, most), splits = drawn(seed)
    search = SVCSearch(model, {"C": [least, most]}, cv=splits, guarantee=0.02, max_cells=5).fit(X, y)
    assert search.guaranteed_error_ <= 1 - search.best_score_ + 1e-12
    for C in np.geomspace(least, most, n_values):
        errors = [np.mean(exact(model, C, X, y, split)[2][split[1]] != y[split[1]]) for split in splits]
        assert np.mean(errors) >= search.guaranteed_error_ - 1e-12
    return search
