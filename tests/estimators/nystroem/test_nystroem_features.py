"""The features of landmarks, for other models and from file to file."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from fastsvm import LinearSVC, NystroemFeatures, NystroemSVC, open_hdf5

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
Y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_dot_products_of_features_approximate_the_kernel(layout):
    model = NystroemFeatures(gamma=0.2, n_components=300, rank_tol=1e-13, random_state=0)
    features = model.fit_transform(layout(X))
    np.testing.assert_allclose(features @ features.T, rbf_kernel(X, gamma=0.2), atol=1e-6)
    assert model.trace_error_ < 1e-9 and len(model.get_feature_names_out()) == model.rank_ == features.shape[1]
    few = NystroemFeatures(gamma=0.2, n_components=30, random_state=0).fit(layout(X))
    lost = 300 - np.square(few.transform(layout(X))).sum()
    assert few.trace_error_ == pytest.approx(lost / 300, abs=1e-9) and few.components_.shape == (30, 5)


def test_the_machine_learns_on_these_features():
    given = {"gamma": 0.2, "n_components": 50, "landmarks": X[:50], "standardize": True}
    model = NystroemSVC(C=2.0, tol=1e-6, **given).fit(X, Y)
    features = NystroemFeatures(**given).fit(X).transform(X)
    linear = LinearSVC(C=2.0, loss="hinge", tol=1e-6).fit(features, Y)
    np.testing.assert_allclose(linear.decision_function(features), model.decision_function(X), atol=1e-4)
    assert linear.objective_ == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_features_of_a_sample_have_the_same_bits_whatever_samples_are_beside_it(dtype):
    rows = np.random.default_rng(0).normal(size=(600, 3)).astype(dtype)
    model = NystroemFeatures(n_components=20, random_state=0).fit(rows[:300])
    together = model.transform(rows)
    for begin, n in ((0, 1), (5, 2), (7, 3), (11, 17), (100, 64), (511, 2), (40, 513)):
        np.testing.assert_array_equal(model.transform(rows[begin : begin + n]), together[begin : begin + n])


def test_from_file_to_file(tmp_path, monkeypatch):
    weight = RNG.random(300)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=X.astype(np.float32), chunks=(32, 5))
        file["sample_weight"] = weight
        file["y"] = np.array(Y.astype(object), dtype=h5py.string_dtype())
    with open_hdf5(tmp_path / "rows.h5") as data:
        model = NystroemFeatures(gamma=0.2, n_components=40, random_state=0).fit(data)
        model.transform_to_file(data, tmp_path / "features.h5", dtype="float16")
        wanted = model.transform(data)
        with pytest.raises(ValueError, match="dtype must be"):
            model.transform_to_file(data, tmp_path / "features.h5", dtype="int8")
        monkeypatch.setattr(NystroemFeatures, "_blocks", lambda *given: iter([(0, wanted[:10]), 1 / 0]))
        with pytest.raises(ZeroDivisionError):
            model.transform_to_file(data, tmp_path / "features.h5")
    assert wanted.dtype == np.float32
    with open_hdf5(tmp_path / "features.h5") as found:
        assert found.X.dtype == np.float16 and found.shape == (300, model.rank_)
        np.testing.assert_allclose(found.X.read(0, 300).values, wanted, atol=1e-3)
        np.testing.assert_array_equal(found.y, Y)
        np.testing.assert_array_equal(found.sample_weight, weight)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.h5", "rows.h5"]


def test_samples_that_are_refused():
    model = NystroemFeatures(random_state=0).fit(X)
    with pytest.raises(ValueError, match="4 features, but NystroemFeatures is expecting 5"):
        model.transform(X[:, :4])
    with pytest.raises(ValueError, match="NaN"):
        model.transform(np.full((2, 5), np.nan))
    with pytest.raises(ValueError, match="precomputed"):
        NystroemFeatures(kernel="precomputed").fit(X)
