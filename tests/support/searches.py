"""Our search beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from fastsvm import SVC, SVCSearch


def both(X, y, grid, model=None, fit=None, **settings):
    """Return our search and scikit-learn's, fitted, after a look at whether they are the same."""
    model, fit = SVC(tol=1e-6) if model is None else model, fit or {}  # at 1e-3 a row may be on either side
    ours = SVCSearch(model, grid, **settings).fit(X, y, **fit)
    theirs = GridSearchCV(model, grid, **settings).fit(X, y, **fit)
    names = [name for name in theirs.cv_results_ if "time" not in name]
    assert [name for name in ours.cv_results_ if "time" not in name] == names
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name in names:
        ours_is, theirs_is = ours.cv_results_[name], theirs.cv_results_[name]
        if any(word in name for word in ("score", "test", "train")):
            np.testing.assert_allclose(ours_is, theirs_is, rtol=1e-6, atol=1e-12, err_msg=name)
        elif name != "params":
            assert ours_is.dtype == theirs_is.dtype and (ours_is == theirs_is).all()
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert ours.n_splits_ == theirs.n_splits_ and ours.multimetric_ == theirs.multimetric_
    for name in ("best_params_", "best_index_"):
        assert getattr(ours, name, None) == getattr(theirs, name, None)
    assert getattr(ours, "best_score_", 0) == pytest.approx(getattr(theirs, "best_score_", 0), nan_ok=True)
    return ours, theirs
