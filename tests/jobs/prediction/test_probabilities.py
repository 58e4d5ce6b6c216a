"""Commands and jobs train models with probabilities, and write them beside predictions."""

import csv
import json
from copy import deepcopy

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import brier_score_loss, log_loss

import fastsvm
from fastsvm import SVC, CalibratedClassifier, LinearSVC
from fastsvm.cli import main
from fastsvm.estimators.fitting.session import checkpointed
from fastsvm.jobs.training.job_file import job_of
from fastsvm.jobs.training.train import probability_scores, split

X, NUMBERS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versi,color", "virginica"])
TRAIN = ["--label", "kind", "--probability", "sigmoid", "--C", "10", "--gamma", "0.1"]


class _Interrupted(Exception):
    pass


class _Checkpointer:
    """Keeps what is needed to resume, and interrupts the fit at the second checkpoint."""

    def __init__(self):
        self.trees = []

    def observe(self, tree, facts):
        self.trees.append(deepcopy(tree()))
        if len(self.trees) == 2:
            raise _Interrupted


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return a table of irises in the working folder."""
    monkeypatch.chdir(tmp_path)
    with open("iris.csv", "w", newline="") as file:
        labelled = ([*row, kind] for row, kind in zip(X, NAMES[NUMBERS], strict=True))
        csv.writer(file).writerows([["a", "b", "c", "d", "kind"], *labelled])
    return "iris.csv"


def test_probabilities_are_columns_of_the_output(table, capsys):
    assert main(["train", table, *TRAIN, "-o", "a.model"]) == 0
    model = fastsvm.load("a.model")
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    del model.estimator_.feature_names_in_  # to pass arrays without a warning
    data = X.astype(np.float32)
    assert main(["predict", "a.model", table, "-o", "a.csv"]) == 0
    assert main(["predict", "a.model", table, "-o", "a.h5"]) == 0
    with open("a.csv", newline="") as file:
        head, *rows = csv.reader(file)
    names = [f"p_{name}" for name in NAMES]
    assert head == ["prediction", "decision_0", "decision_1", "decision_2", *names]
    shares = np.array([row[4:] for row in rows], float)
    np.testing.assert_allclose(shares, model.predict_proba(data), atol=1e-6)
    assert [row[0] for row in rows] == NAMES[shares.argmax(axis=1)].tolist()
    with h5py.File("a.h5") as file:
        np.testing.assert_array_equal(file["probability"], shares)
        np.testing.assert_allclose(file["decision"], np.array([row[1:4] for row in rows], float))
    assert main(["evaluate", "a.model", table, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["accuracy"] == pytest.approx(model.score(data, NAMES[NUMBERS]))


def test_two_classes_keep_one_decision_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = NUMBERS > 1
    for method in ("sigmoid", "isotonic"):
        fastsvm.save(CalibratedClassifier(LinearSVC(), method=method).fit(X, y.astype(int)), tmp_path / "a.model")
        np.save(tmp_path / "x.npy", X)
        assert (
            main(
                [
                    "predict",
                    str(tmp_path / "a.model"),
                    str(tmp_path / "x.npy"),
                    "-o",
                    str(tmp_path / "a.csv"),
                    "--force",
                ]
            )
            == 0
        )
        with open(tmp_path / "a.csv", newline="") as file:
            head, *rows = csv.reader(file)
        assert head == ["prediction", "decision", "p_0", "p_1"]
        values = np.array(rows, float)
        np.testing.assert_allclose(values[:, 2] + values[:, 3], 1)
        np.testing.assert_array_equal(values[:, 0], values[:, 3] > 0.5)


def test_reports_score_the_probabilities_of_samples_held_out(table, capsys):
    assert main(["train", table, *TRAIN, "--holdout", "0.3", "-o", "a.model", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows, held = split(150, 0.3, 0)
    assert (report["n_samples"], report["n_test"]) == (len(rows), len(held))
    assert 0 < report["scores"]["brier_score"] < 0.3 and 0 < report["scores"]["log_loss"] < 0.6
    assert main(["run", "job.toml", "--folder", "run"]) == 2  # there is no such job


def test_scores_are_those_of_scikit_learn():
    shares = CalibratedClassifier(SVC()).fit(X, NUMBERS).predict_proba(X)
    found = probability_scores(NUMBERS, shares, np.arange(3))
    assert found["log_loss"] == log_loss(NUMBERS, shares)
    assert found["brier_score"] == pytest.approx(np.mean(np.sum((shares - np.eye(3)[NUMBERS]) ** 2, axis=1)))
    y = NUMBERS // 2
    shares = CalibratedClassifier(SVC()).fit(X, y).predict_proba(X)
    found = probability_scores(y, shares, np.arange(2))
    assert found["brier_score"] == pytest.approx(brier_score_loss(y, shares[:, 1]))


def test_jobs_calibrate_what_a_search_chose(table, tmp_path, capsys):
    (tmp_path / "job.toml").write_text(
        '[data]\ntrain = "iris.csv"\nlabel = "kind"\nholdout = 0.2\n[model]\nprobability = "isotonic"\n'
        "[search]\nC = [1, 10]\nfolds = 3\n"
    )
    assert main(["run", "job.toml", "--folder", "run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    model = fastsvm.load("run/model.fastsvm")
    assert (model.method, model.cv) == ("isotonic", 3) and "brier_score" in report["scores"]
    assert "brier_score" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_what_cannot_have_probabilities_is_refused(table, tmp_path, capsys):
    words = {"data": {"train": "a.h5"}, "model": {"probability": "platt"}}
    with pytest.raises(ValueError, match=r"model\.probability must be one of sigmoid, isotonic, temperature"):
        job_of(words, tmp_path)
    words = {"data": {"train": "a.h5"}, "model": {"kind": "svr", "probability": "sigmoid"}}
    with pytest.raises(ValueError, match=r"model\.probability is not a key"):
        job_of(words, tmp_path)
    np.savetxt("a.csv", X, delimiter=",", header="a,b,c,d", comments="")
    assert main(["train", "a.csv", "--label", "a", "--model", "svr", "--probability", "sigmoid"]) == 2
    assert "must be a classifier" in capsys.readouterr().err


def test_an_interrupted_fit_resumes_and_is_calibrated():
    """The checkpoints are those of the model; its folds are solved after it."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6000, 5))
    y = (np.sin(2 * rows[:, 0]) + rows[:, 1] + 0.5 * rng.normal(size=6000) > 0).astype(int)
    wanted = CalibratedClassifier(SVC(gamma=0.2, C=20)).fit(rows, y)
    model = CalibratedClassifier(SVC(gamma=0.2, C=20))
    checkpointer = _Checkpointer()
    with pytest.raises(_Interrupted), checkpointed(model, checkpointer):
        model.fit(rows, y)
    with checkpointed(model, None, checkpointer.trees[0]):
        model.fit(rows, y)
    np.testing.assert_array_equal(model.estimator_.dual_coef_, wanted.estimator_.dual_coef_)
    np.testing.assert_allclose(model.predict_proba(rows), wanted.predict_proba(rows), atol=1e-4)
