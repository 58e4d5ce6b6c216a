"""SGDClassifier on a cluster comes near the objective of the local one, with the same bits for the same shards."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import fastsvm
import fastsvm.dask
from fastsvm.estimators.fitting.session import checkpointed
from fastsvm.jobs.training.checkpoints import read, write

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:900] / 16, y[:900]


def made(client, **parameters):
    given = {"alpha": 0.01, "tol": 3e-3, "random_state": 0, "n_shards": 3, "client": client}
    return fastsvm.dask.SGDClassifier(**given | parameters)


def arrays(X, y):
    return da.from_array(X, chunks=(300, X.shape[1]), asarray=False), da.from_array(y, chunks=300)


@pytest.mark.parametrize(
    ("kind", "tol", "parameters"),
    [
        ("dense", 0.0008, {}),
        ("dense", 0.0005, {"learning_rate": "auto", "standardize": True, "loss": "log_loss"}),
        ("csr", 0.0008, {"learning_rate": "auto", "loss": "softmax", "penalty": "elasticnet"}),
    ],
)
def test_the_objective_is_near_that_of_the_local_estimator(client, digits, kind, tol, parameters):
    X, y = digits
    X = sparse.csr_matrix(X) if kind == "csr" else X
    weight = np.where(y == 3, 2.0, 1.0)
    local = fastsvm.SGDClassifier(alpha=0.01, random_state=0, **parameters).fit(X, y, sample_weight=weight)
    model = made(client, tol=tol, **parameters).fit(*arrays(X, y), da.from_array(weight, chunks=300))
    assert model.converged_ and model.objective_ <= 1.1 * local.objective_ + 0.003
    assert model.score(*arrays(X, y)) > 0.9
    there = model.to_local()
    assert there.alpha == model.alpha and type(there) is fastsvm.SGDClassifier
    np.testing.assert_array_equal(there.predict(X), model.predict(arrays(X, y)[0]).compute())


def test_a_perceptron_settles_though_zero_weights_have_no_loss(client, digits):
    model = made(client, loss="perceptron", tol=0.02, max_iter=64).fit(*arrays(*digits))
    assert model.converged_ and model.n_iter_ < 64
    assert model.score(*arrays(*digits)) > 0.9


def test_the_same_shards_give_the_same_bits_and_classes_may_be_words(client, digits):
    X, y = digits[0], np.where(digits[1] < 5, "few", "many")
    with pytest.warns(match="SGDClassifier stopped before it converged"):
        first, second = (made(client, max_iter=3).fit(*arrays(X, y)) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.coef_.shape == (1, 64) and first.n_iter_ == 3 and first.predict(X[:2]).dtype.kind == "U"


class Keeper:
    """A checkpointer that writes the third round and ends the fit in the sixth."""

    def __init__(self, path):
        self.path = path

    def observe(self, tree, facts):
        if facts["epoch"] == 3:
            write(self.path, tree(), {})
        if facts["epoch"] == 6:
            raise KeyboardInterrupt


def test_a_fit_resumes_from_a_checkpoint_with_the_same_bits(client, digits, tmp_path):
    X, y = arrays(*digits)
    model = made(client, standardize=True, tol=None, max_iter=9)
    with pytest.raises(KeyboardInterrupt), checkpointed(model, Keeper(tmp_path / "checkpoint")):
        model.fit(X, y)
    state = read(tmp_path / "checkpoint", {})
    assert state.n_rounds == 3
    with checkpointed(model.set_params(n_shards=None), None, state):
        model.fit(X, y)
    whole = made(client, standardize=True, tol=None, max_iter=9).fit(X, y)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert (model.objective_, model.t_) == (whole.objective_, whole.t_)
    assert model.history_["epoch"].tolist() == whole.history_["epoch"].tolist() == [4, 8, 9]
    with checkpointed(model, None, state), pytest.raises(ValueError, match="Cannot resume the fit: its shards"):
        model.fit(X[:600], y[:600])


def test_bad_input_is_said(client, digits):
    X, y = arrays(*digits)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        made(client, alpha=-1).fit(X, y)
    with pytest.raises(ValueError, match="'n_shards' parameter"):
        made(client, n_shards=0).fit(X, y)
    with pytest.raises(ValueError, match="got 1 class"):
        made(client).fit(X, da.zeros(900, chunks=300))
