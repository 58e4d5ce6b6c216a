"""The demo, on few images, and the images that it deforms."""

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits

from fastsvm.jobs.demo import deformed, demo, enlarged

IMAGES = load_digits().images[:50] / 16


def test_the_answer_is_that_of_scikit_learn(tmp_path):
    told = []
    report = demo(tmp_path, n_training=1500, tell=told.append)
    assert report.same_predictions > 0.995
    assert report.objective == pytest.approx(report.reference_objective, rel=1e-5)
    assert report.kkt_violation <= report.tol
    assert min(report.accuracy, report.plain_accuracy) > 0.97
    assert report.times_faster == report.reference_seconds / report.fit_seconds
    assert len(told) == 2
    with h5py.File(tmp_path / "train.h5") as file:
        assert file["X"].shape == (1500, report.n_features) and file["X"].dtype == np.uint8


def test_images_are_drawn_anew_by_the_seed():
    X, originals = deformed(IMAGES, 120, 16, seed=3)
    again, _ = deformed(IMAGES, 120, 16, seed=3)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(originals, np.arange(120) % 50)
    assert (deformed(IMAGES, 120, 16, seed=4)[0] != X).any()
    assert len(np.unique(X, axis=0)) == 120


def test_a_deformed_image_is_near_its_original():
    X, originals = deformed(IMAGES, 200, 16, seed=0)
    plain = enlarged(IMAGES, 16).astype(float)
    distances = np.linalg.norm(X[:, None].astype(float) - plain, axis=2)
    assert (distances.argmin(axis=1) == originals).mean() > 0.5  # of fifty
    assert (distances[np.arange(200), originals] > 100).all()


def test_an_enlarged_image_has_the_pixels_of_the_original():
    small = enlarged(IMAGES, 8).reshape(50, 8, 8)
    np.testing.assert_array_equal(small, (255 * IMAGES).astype(np.uint8))
    large = enlarged(IMAGES, 24).reshape(50, 24, 24)
    blocks = large.reshape(50, 8, 3, 8, 3).mean(axis=(2, 4))
    assert np.corrcoef(blocks.ravel(), small.ravel())[0, 1] > 0.95
