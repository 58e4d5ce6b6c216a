"""A fit on a cluster that fails leaves the model of the fit before."""

import dask.array as da
import numpy as np
import pytest

import fastsvm.dask as D

pytestmark = pytest.mark.dask


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [D.LinearSVC, D.LinearSVR, D.SGDClassifier, D.NystroemSVC, D.SVC])
def test_a_fit_that_fails_leaves_the_model_as_it_was(kind, client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, bad = (X[:, 0] > 0).astype(int), np.where(np.arange(180).reshape(60, 3) == 100, np.nan, X)
    model = kind(random_state=0) if "random_state" in kind().get_params() else kind()
    rows, labels, with_nan = (da.from_array(each, chunks=(20, *each.shape[1:])) for each in (X, y, bad))
    wanted = model.fit(rows, labels).predict(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(with_nan, labels)
    assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model.predict(X), wanted)
