"""LinearSVR on a cluster, and what comes in dataframes and in blocks of unknown lengths."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import fastsvm
from fastsvm.dask import LinearSVR

pytestmark = pytest.mark.dask

LOSSES = ["epsilon_insensitive", "squared_epsilon_insensitive"]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_model_is_that_of_the_local_estimator(client, line, loss):
    X, y = line
    given = {"loss": loss, "epsilon": 0.1, "C": 0.05, "random_state": 0}
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    weight[:100] = 0  # a whole block
    rows, targets = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=70)
    model = LinearSVR(**given, n_shards=3).fit(rows, targets, da.from_array(weight, chunks=100))
    local = fastsvm.LinearSVR(**given, tol=1e-7).fit(X, y, weight)
    assert model.converged_ and local.objective_ * (1 - 1e-6) <= model.objective_ <= local.objective_ * (1 + 1e-3)
    assert np.sum((model.coef_ - local.coef_) ** 2) / 2 <= model.duality_gap_ + local.duality_gap_
    assert model.coef_.shape == (5,) and model.intercept_.shape == (1,)
    assert model.score(rows, y) == pytest.approx(model.to_local().score(X, y), rel=1e-9)


def test_dataframes_give_their_names(client, line):
    frame = pytest.importorskip("dask.dataframe")
    X = pd.DataFrame(line[0], columns=list("abcde"))
    rows = frame.from_pandas(X, npartitions=2)
    targets = frame.from_pandas(pd.Series(line[1]), npartitions=2)
    model = LinearSVR(random_state=0, n_shards=1).fit(rows, targets)
    assert model.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_allclose(model.predict(rows).compute(), model.to_local().predict(X))
    assert model.score(rows, targets) == pytest.approx(model.to_local().score(X, line[1]))


def test_blocks_of_unknown_lengths_are_counted_by_the_workers(client, line):
    X, y = line
    kept = da.from_array(y > 0, chunks=100)
    rows, targets = da.from_array(X, chunks=(100, 5))[kept], da.from_array(y, chunks=100)[kept]
    model = LinearSVR(random_state=0, n_shards=2).fit(rows, targets)
    local = fastsvm.LinearSVR(random_state=0, tol=1e-6).fit(X[y > 0], y[y > 0])
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LinearSVR(n_shards=1).fit(rows, da.from_array(y, chunks=100))
    with pytest.raises(ValueError, match="3 blocks and y has 1"):
        LinearSVR(n_shards=1).fit(rows, da.from_array(y, chunks=300))


def test_words_are_no_targets(client, line):
    words = da.from_array(np.array(["a", "b", "c"] * 100), chunks=100)
    with pytest.raises(ValueError, match="y holds strings"):
        LinearSVR().fit(da.from_array(line[0], chunks=(100, 5)), words)
