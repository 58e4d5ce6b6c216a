"""Accuracy, confusion matrix and R² of predictions."""

import numpy as np
import pytest
from predicted_files import N, alike, write
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score

import fastsvm
from fastsvm.jobs.prediction.predict import evaluate


@pytest.mark.parametrize("name", ["words", "pair"])
def test_the_summary_of_classes(name, made, whole):
    model, report = fastsvm.load(made[name][0]), whole[name, "csv"][1]
    with fastsvm.open_hdf5(made[name][1]) as data:
        truth, guess = data.y, model.predict(data.X)
    assert report.accuracy == pytest.approx(accuracy_score(truth, guess)) and report.accuracy > 0.6
    assert report.confusion == confusion_matrix(truth, guess).tolist()
    assert report.labels == sorted({str(label) for label in truth})
    for label in np.unique(truth):
        assert report.per_class[str(label)] == pytest.approx(np.mean(guess[truth == label] == label))
    assert alike(evaluate(*made[name])) == report == whole[name, "h5"][1]


def test_the_summary_of_a_regression(made, whole):
    model, report = fastsvm.load(made["numbers"][0]), whole["numbers", "csv"][1]
    with fastsvm.open_hdf5(made["numbers"][1]) as data:
        assert report.r2 == pytest.approx(r2_score(data.y, model.predict(data.X)), rel=1e-12)
    assert report.accuracy is None and report.confusion == []
    assert alike(evaluate(*made["numbers"])) == report


def test_targets_without_variance_and_of_another_kind(made, tmp_path):
    model, X = made["numbers"][0], np.ones((3, 5))
    assert evaluate(model, write(tmp_path / "a.h5", X=X, y=np.ones(3))).r2 == 0.0
    assert evaluate(model, write(tmp_path / "b.h5", X=X[:1], y=np.ones(1))).r2 is None
    for y in (["a", "b", "c"], [1.0, np.nan, 2.0]):
        with pytest.raises(ValueError, match="must hold finite numbers"):
            evaluate(model, write(tmp_path / "c.h5", X=X, y=y))


def test_a_file_without_labels_is_predicted_and_not_evaluated(made, whole):
    report = whole["without y", "csv"][1]
    assert report.n_samples == N and report.accuracy is None and report.per_class == {} and report.r2 is None
    with pytest.raises(ValueError, match="has no labels to compare"):
        evaluate(*made["without y"])
