"""The main job on real data, from the publishers' files to predictions; skipped where there are none."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_svmlight_file

import fastsvm
from fastsvm import SVC, LinearSVC, open_hdf5
from fastsvm._compiled.byte_tile import PRODUCTS
from fastsvm.formats import convert

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def published():
    folder = os.environ.get("FASTSVM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FASTSVM_DATA names no folder with real data")
    return Path(folder)


@pytest.fixture(scope="module")
def digits(published, tmp_path_factory):
    """Return the path of a file with the published test images of digits."""
    path = tmp_path_factory.mktemp("digits") / "digits.h5"
    convert(published / "mnist", path, split="test")
    return path


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_adult_agrees_with_libsvm(published, C):
    X, y = load_svmlight_file(str(published / "a9a"))
    X, y = X[:2500], y[:2500]
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    wanted = svm.SVC(C=C, gamma=0.05, tol=1e-6, cache_size=500).fit(X, y)
    found = SVC(C=C, gamma=0.05, tol=1e-6).fit(X, y)
    beta, support = wanted.dual_coef_.toarray()[0], X[wanted.support_].toarray()
    squared = (support**2).sum(axis=1)
    kernel = np.exp(-0.05 * (squared[:, None] + squared - 2 * support @ support.T))
    objective = np.abs(beta).sum() - beta @ kernel @ beta / 2
    assert found.objective_ == pytest.approx(objective, rel=1e-7)
    assert (found.predict(X) == wanted.predict(X)).mean() >= 0.999


@pytest.mark.skipif(PRODUCTS is None, reason="multiplied as floats, they need twice the memory and many minutes")
def test_images_from_a_file_larger_than_the_memory_give_the_model_of_memory(published, tmp_path):
    batch = published / "cifar-10-batches-bin" / "test_batch.bin"
    convert(batch, tmp_path / "images.h5")
    given = {"C": 2.0, "gamma": 0.003 / 255**2}
    with open_hdf5(tmp_path / "images.h5") as data:
        places = np.flatnonzero(data.y < 4)
        rows, labels, held = data.X.take(places[:1600]), data.y[places[:1600]], places[3000:]
        streamed = SVC(memory="7MB", **given).fit(rows, labels)
        assert data.X.reads.nbytes > 5 * rows.nbytes  # a pass for every pair of classes at least
        resident = SVC(**given).fit(rows.in_memory().block.values, labels)
        assert streamed.objective_ == pytest.approx(resident.objective_, rel=1e-6)
        accuracy = [model.score(data.X.take(held), data.y[held]) for model in (streamed, resident)]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.003)
    assert accuracy[0] > 0.6


def test_handwritten_digits_from_the_published_files_to_a_saved_model(digits, tmp_path):
    with open_hdf5(digits) as data:
        model = SVC(C=10, gamma=0.02 / 255**2, memory="200MB").fit(data.X.take(np.arange(6000)), data.y[:6000])
        fastsvm.save(model, tmp_path / "model.h5")
        held = np.arange(6000, 10_000)
        again = fastsvm.load(tmp_path / "model.h5")
        predicted = again.predict(data.X.take(held))
        np.testing.assert_array_equal(predicted, model.predict(data.X.take(held)))
        assert (predicted == data.y[held]).mean() > 0.95
        as_floats = again.predict(data.X.take(held).in_memory().block.values.astype(np.float64))
        assert (as_floats == predicted).mean() > 0.999


def test_adult_without_an_offset(published):
    X, y = load_svmlight_file(str(published / "a9a"))
    X, y = X[:4000], y[:4000]
    found = SVC(solver="coordinate", gamma=0.05).fit(X, y)
    sums = found.decision_function(X) - found.intercept_[0]
    alpha, signs = np.zeros(4000), np.where(y > 0, 1.0, -1.0)
    alpha[found.support_] = found.dual_coef_.toarray()[0] * signs[found.support_]
    square = (alpha * signs) @ sums
    dual, primal = alpha.sum() - square / 2, square / 2 + np.maximum(0, 1 - signs * sums).sum()
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert found.objective_ == pytest.approx(dual, rel=1e-6)
    assert found.duality_gap_ == pytest.approx(primal - dual, abs=1e-5 * dual)
    assert primal - dual <= 1.01e-3 * primal
    F = sums - signs
    may_rise, may_fall = np.where(signs > 0, [alpha < 1, alpha > 0], [alpha > 0, alpha < 1])
    violation = max(0, F[may_fall].max()) - min(0, F[may_rise].min())
    assert violation <= 1.1e-3
    assert found.kkt_violation_ == pytest.approx(violation, abs=1e-4)
    best = SVC(solver="coordinate", gamma=0.05, tol=1e-6).fit(X, y).objective_
    assert dual <= best * (1 + 1e-9) <= primal
    assert best > SVC(gamma=0.05).fit(X, y).objective_


def test_two_digits_with_the_squared_hinge(digits):
    with open_hdf5(digits) as data:
        rows = np.flatnonzero((data.y == 3) | (data.y == 8))[:2000]
        X, y = data.X.take(rows).in_memory().block.values / 255, data.y[rows]
    C = 0.5
    found = SVC(solver="primal", loss="squared_hinge", C=C, gamma=0.02, tol=1e-6).fit(X, y)
    squared = (X**2).sum(axis=1)
    K = np.exp(-0.02 * np.maximum(0, squared[:, None] + squared - 2 * X @ X.T))
    wanted = SVC(kernel="precomputed", C=1e6, tol=1e-8).fit(K + np.eye(len(X)) / (2 * C), y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-6)
    beta = np.zeros(len(X))
    beta[wanted.support_] = wanted.dual_coef_[0]
    np.testing.assert_allclose(found.decision_function(X), K @ beta + wanted.intercept_, atol=1e-5)
    np.testing.assert_array_equal(found.support_, wanted.support_)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_models_of_adult_are_those_of_liblinear(published, loss):
    X, y = load_svmlight_file(str(published / "a9a"))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    wanted = svm.LinearSVC(loss=loss, dual=True, tol=1e-3, max_iter=10_000, random_state=0).fit(X, y)
    found = LinearSVC(loss=loss, tol=1e-4, random_state=0).fit(X, y)
    slack = np.maximum(0, 1 - y * wanted.decision_function(X)) ** (1 if loss == "hinge" else 2)
    best = (wanted.coef_**2).sum() / 2 + wanted.intercept_[0] ** 2 / 2 + slack.sum()
    assert found.converged_
    assert found.dual_objective_ <= best * (1 + 1e-9)
    assert found.objective_ == pytest.approx(best, rel=2e-4)
    assert (found.predict(X) == wanted.predict(X)).mean() > 0.99


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_linear_models_of_images_from_a_file_larger_than_the_memory(digits, multi_class):
    given = {"C": 3e-4 / 255, "tol": 0.01, "multi_class": multi_class, "loss": "hinge", "random_state": 0}
    with open_hdf5(digits) as data:
        places = np.flatnonzero(data.y < 5)
        rows, labels, held = data.X.take(places[:1000]), data.y[places[:1000]], places[3000:]
        streamed = LinearSVC(memory="0.6MB", **given).fit(rows, labels)
        assert data.X.reads.nbytes > streamed.n_iter_ * rows.nbytes * 0.9
        resident = LinearSVC(**given).fit(rows.in_memory().block.values, labels)
        assert streamed.objective_ == pytest.approx(resident.objective_, rel=0.02)
        for model in (streamed, resident):
            assert model.duality_gap_ <= 0.011 * model.objective_
            assert model.score(data.X.take(held), data.y[held]) > 0.85
