"""The demo, on few images."""

import h5py
import numpy as np
import pytest

from fastsvm.jobs.demo import demo


def test_the_answer_is_that_of_scikit_learn(tmp_path):
    told = []
    report = demo(tmp_path, n_training=1500, tell=told.append)
    assert report.same_predictions > 0.995
    assert report.objective == pytest.approx(report.reference_objective, rel=1e-5)
    assert report.kkt_violation <= report.tol
    assert min(report.accuracy, report.plain_accuracy) > 0.97
    assert report.times_faster == report.reference_seconds / report.fit_seconds
    assert len(told) == 3
    with h5py.File(tmp_path / "train.h5") as file:
        assert file["X"].shape == (1500, report.n_features) and file["X"].dtype == np.uint8
