"""Accuracy, confusion matrix and R² of predictions."""

import numpy as np
import pytest
from predicted_files import N, alike, write
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, r2_score

import fastsvm
from fastsvm.jobs.predict import evaluate, predict


@pytest.mark.parametrize("name", ["words", "pair"])
def test_the_summary_of_classes(name, made, whole):
    model, report = fastsvm.load(made[name][0]), whole[name, "csv"][1]
    with fastsvm.open_hdf5(made[name][1]) as data:
        truth, guess = data.y, model.predict(data.X)
    assert report["accuracy"] == pytest.approx(accuracy_score(truth, guess)) and report["accuracy"] > 0.6
    assert report["confusion"] == confusion_matrix(truth, guess).tolist()
    assert report["labels"] == sorted({str(label) for label in truth})
    for label in np.unique(truth):
        assert report["per_class"][str(label)] == pytest.approx(np.mean(guess[truth == label] == label))
    assert report["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, guess))
    assert alike(evaluate(*made[name])) == report == whole[name, "h5"][1]


def test_the_summary_of_a_regression(made, whole):
    model, report = fastsvm.load(made["numbers"][0]), whole["numbers", "csv"][1]
    with fastsvm.open_hdf5(made["numbers"][1]) as data:
        assert report["r2"] == pytest.approx(r2_score(data.y, model.predict(data.X)), rel=1e-12)
    assert report["accuracy"] is None and report["confusion"] == []
    assert alike(evaluate(*made["numbers"])) == report


def test_targets_without_variance_and_of_another_kind(made, tmp_path):
    model, X = made["numbers"][0], np.ones((3, 5))
    assert evaluate(model, write(tmp_path / "a.h5", X=X, y=np.ones(3)))["r2"] == 0.0
    assert evaluate(model, write(tmp_path / "b.h5", X=X[:1], y=np.ones(1)))["r2"] is None
    for y in (["a", "b", "c"], [1.0, np.nan, 2.0]):
        with pytest.raises(ValueError, match="must be finite numbers"):
            evaluate(model, write(tmp_path / "c.h5", X=X, y=y))


def test_a_file_without_labels_is_predicted_and_not_evaluated(made, whole):
    report = whole["without y", "csv"][1]
    assert (
        report["n_samples"] == N and report["accuracy"] is None and report["per_class"] == {} and report["r2"] is None
    )
    with pytest.raises(ValueError, match="has no labels to compare"):
        evaluate(*made["without y"])


def test_labels_that_are_no_classes_of_the_model(made, tmp_path, capsys):
    model, X = made["words"][0], np.ones((4, 5))
    path = write(tmp_path / "ids.h5", X=X, y=np.array(["17", "18", "19", "20"], object))
    with pytest.raises(
        ValueError, match=r"No label in .*ids\.h5 is a class .*: the labels are 17, 18, 19, 20, the clas"
    ):
        evaluate(model, path)
    capsys.readouterr()
    report = predict(model, path, tmp_path / "out.csv")
    assert report["n_samples"] == 4 and report["accuracy"] is None and report["confusion"] == []
    assert "note: No label in" in capsys.readouterr().err and (tmp_path / "out.csv").exists()
    path = write(tmp_path / "some.h5", X=X, y=np.array(["ant", "wasp", "wasp", "hornet"], object))
    report = evaluate(model, path)
    said = "3 of 4 rows have a class that the model does not know: hornet, wasp."
    assert said in capsys.readouterr().err and set(report["per_class"]) == {"ant", "hornet", "wasp"}
    predict(model, path, tmp_path / "some.csv")
    assert said in capsys.readouterr().err


def test_real_labels_of_a_classifier(made, tmp_path, capsys):
    path = write(tmp_path / "real.h5", X=np.ones((4, 5)), y=np.arange(4) / 3)
    with pytest.raises(ValueError, match=r"real\.h5 are real numbers, but the model predicts classes"):
        evaluate(made["words"][0], path)
    assert predict(made["words"][0], path, tmp_path / "out.csv")["accuracy"] is None
    assert "note: The labels in" in capsys.readouterr().err
