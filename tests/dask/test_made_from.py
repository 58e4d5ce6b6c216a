"""Estimators on a cluster are like those of one machine, and keep a model until another is fitted."""

import inspect
import re

import dask.array as da
import numpy as np
import pytest

import fastsvm
from fastsvm import dask as cluster

pytestmark = pytest.mark.dask

NAMES = ["LinearSVC", "LinearSVR", "NystroemSVC", "SGDClassifier", "SVC"]


def described(cls, section):
    """Return the names that a section of a docstring describes."""
    text = cls.__doc__.partition(f"{section}\n{'-' * len(section)}\n")[2]
    return re.findall(r"^(\w+) : ", re.split(r"\n\n\w+\n---", text)[0], re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_one_machine(name):
    ours, local = (inspect.signature(getattr(of, name)).parameters for of in (cluster, fastsvm))
    assert [one for one in local if one in ours] + ["client", "n_shards"] == list(ours)
    assert all(ours[one].default == local[one].default for one in ours if one in local)
    assert described(getattr(cluster, name), "Parameters") == list(ours)
    assert list(getattr(cluster, name)().get_params()) == sorted(one for one in ours if one != "client")


@pytest.mark.parametrize("name", NAMES)
def test_argument_that_is_none_is_refused(name):
    with pytest.raises(TypeError, match=rf"{name}.__init__\(\) got an unexpected keyword argument 'gama'"):
        getattr(cluster, name)(gama=1)


def test_unusable_parameter_is_refused_before_a_cluster_is_needed():
    with pytest.raises(ValueError, match="'C' parameter of LinearSVC must be"):
        cluster.LinearSVC(C=-1).fit(None)
    with pytest.raises(ValueError, match="'n_shards' parameter of SVC must be"):
        cluster.SVC(n_shards=0).fit(None)
    with pytest.raises(ValueError, match="landmarks='support' needs all samples"):
        cluster.NystroemSVC(landmarks="support").fit(None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [getattr(cluster, name) for name in NAMES])
def test_a_fit_that_fails_leaves_the_model_as_it_was(kind, client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, bad = (X[:, 0] > 0).astype(int), np.where(np.arange(180).reshape(60, 3) == 100, np.nan, X)
    few = {"random_state": 0, "max_iter": 8}  # a fit need not converge
    model = kind(**{name: value for name, value in few.items() if name in kind().get_params()})
    rows, labels, with_nan = (da.from_array(each, chunks=(20, *each.shape[1:])) for each in (X, y, bad))
    wanted = model.fit(rows, labels).predict(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(with_nan, labels)
    assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(model.predict(X), wanted)
