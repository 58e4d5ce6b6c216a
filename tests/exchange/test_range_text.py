"""Range files of svm-scale as scalers."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import fastsvm

WRITTEN = """y
0 1
-1.6399999999999999 5.9100000000000001
x
-1 1
1 -2.2000000000000002 2.2999999999999998
2 -2.7000000000000002 3.2999999999999998
4 -4 0.5
"""
"""svm-scale -y 0 1 -s; feature 3 was constant."""


def test_features_are_scaled_as_svm_scale_does(tmp_path):
    path = tmp_path / "a.range"
    path.write_text(WRITTEN)
    X = np.array([[-1.6, -2.6, -0.5, 0.0], [2.3, 0.2, -1.1, -1.6]])
    scaled = [[-0.733333, -0.966667, 0, 0.777778], [1, -0.0333333, 0, 0.0666667]]  # as svm-scale printed
    scaler = fastsvm.load_libsvm_range(path)
    np.testing.assert_allclose(scaler.transform(X), scaled, atol=1e-6)
    assert fastsvm.load_libsvm_range(path, n_features=6).transform(np.ones((1, 6))).shape == (1, 6)
    with pytest.raises(ValueError, match="has feature 4"):
        fastsvm.load_libsvm_range(path, n_features=3)
    model = fastsvm.LinearSVC().fit(np.array(scaled), [0, 1])
    assert make_pipeline(scaler, model).predict(X).tolist() == [0, 1]


def test_targets_have_a_scaler_of_their_own(tmp_path):
    path = tmp_path / "a.range"
    path.write_text(WRITTEN)
    scaler = fastsvm.load_libsvm_range(path, target=True)
    np.testing.assert_allclose(scaler.transform([[-0.32]]), [[0.1748344370860927]])
    np.testing.assert_allclose(scaler.inverse_transform([[1.0]]), [[5.91]])
    path.write_text(WRITTEN[WRITTEN.index("x") :])
    with pytest.raises(ValueError, match="svm-scale -y"):
        fastsvm.load_libsvm_range(path, target=True)


def test_the_first_index_may_be_said(tmp_path):
    path = tmp_path / "a.range"
    path.write_text("x\n-1 1\n1 0 10\n2 -5 5\n")
    assert fastsvm.load_libsvm_range(path).transform([[10.0, 0.0]]).tolist() == [[1, 0]]
    assert fastsvm.load_libsvm_range(path, first_index=0).transform([[7.0, 10.0, 0.0]]).tolist() == [[0, 1, 0]]
    path.write_text("x\n-1 1\n0 0 10\n")
    with pytest.raises(ValueError, match=r"first_index=1, but .* has the index 0"):
        fastsvm.load_libsvm_range(path, first_index=1)
