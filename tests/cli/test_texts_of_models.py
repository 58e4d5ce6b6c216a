"""Texts of LIBSVM's and LIBLINEAR's models on the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from model_texts.written import LIBLINEAR, LIBSVM, ROWS
from sklearn.datasets import dump_svmlight_file

import fastsvm
from fastsvm.cli import main


def run(capsys, *words):
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def files(tmp_path):
    """Return texts of models, and rows with a feature more than their support vectors have."""
    (tmp_path / "a.libsvm").write_text(LIBSVM["c_svc of three classes"][0])
    (tmp_path / "a.liblinear").write_text(LIBLINEAR["s1"][0])
    X = np.hstack([ROWS, np.zeros((3, 1))])
    X[0, 4] = 3.0
    dump_svmlight_file(X, [3, -1, 2], str(tmp_path / "rows"), zero_based=False)
    dump_svmlight_file(X[:, :2], [3, -1, 2], str(tmp_path / "narrow"), zero_based=False)
    return tmp_path, X


def test_texts_predict_and_are_described(files, capsys):
    folder, X = files
    for rows, data in (("rows", X), ("narrow", np.hstack([X[:, :2], np.zeros((3, 2))]))):
        code, _, err = run(capsys, "predict", folder / "a.libsvm", folder / rows, "-o", folder / f"{rows}.csv")
        assert code == 0, err
        model = fastsvm.load_libsvm(folder / "a.libsvm", n_features=data.shape[1])
        found = pd.read_csv(folder / f"{rows}.csv")
        assert found["prediction"].tolist() == model.predict(data).tolist()
        np.testing.assert_allclose(found.iloc[:, 1:4], model.decision_function(data), rtol=1e-9)
    assert run(capsys, "evaluate", folder / "a.libsvm", folder / "rows")[0] == 0
    code, out, _ = run(capsys, "info", folder / "a.liblinear", "--json")
    told = json.loads(out)
    assert code == 0 and told["estimator"] == "LinearSVC" and told["stop_reason"] == "imported"
    assert told["objective"] is None


def test_models_become_texts_and_texts_become_models(files, capsys):
    folder, _ = files
    rows = np.array(ROWS)
    assert run(capsys, "convert-model", folder / "a.libsvm", folder / "a.model", "--n-features", 4)[0] == 0
    model = fastsvm.load(folder / "a.model")
    code, _, err = run(capsys, "convert-model", folder / "a.model", folder / "a.libsvm")
    assert code == 2 and "--force" in err
    assert run(capsys, "convert-model", folder / "a.model", folder / "a.libsvm", "--force")[0] == 0
    again = fastsvm.load_libsvm(folder / "a.libsvm")
    np.testing.assert_allclose(again.decision_function(rows), model.decision_function(rows), rtol=1e-12)
    fastsvm.save(fastsvm.SVC(standardize=True).fit(rows, [0, 1, 1]), folder / "b.model")
    assert run(capsys, "convert-model", folder / "b.model", folder / "b.libsvm")[0] == 2
    code, _, err = run(capsys, "convert-model", folder / "rows", folder / "c.model")
    assert code == 2 and "not a model file" in err


def test_models_are_compressed(tmp_path, overlapping, capsys):
    X, y = overlapping
    model = fastsvm.SVC().fit(X, y)
    fastsvm.save(model, tmp_path / "a.model")
    np.save(tmp_path / "rows.npy", X)
    words = "compress", tmp_path / "a.model", tmp_path / "rows.npy", "-o", tmp_path / "b.model"
    code, out, err = run(capsys, *words, "--tol", 0.02, "--json")
    told = json.loads(out)
    assert code == 0 and told["max_difference"] <= 0.02 and told["n_support"] < told["n_support_before"], err
    small = fastsvm.load(tmp_path / "b.model")
    assert len(small.support_) == told["n_support"]
    difference = np.abs(small.decision_function(X) - model.decision_function(X)).max()
    np.testing.assert_allclose(difference, told["max_difference"], rtol=1e-5)
    code, _, err = run(capsys, *words)
    assert code == 2 and "--force" in err
    code, _, err = run(capsys, *words, "--tol", 1e-15, "--force")
    assert code == 0 and "nothing is gained" in err


@pytest.mark.parametrize("in_hdf5", [False, True])
def test_indices_of_a_text_are_those_of_the_rows(in_hdf5, tmp_path, capsys):
    head = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\nnr_sv 1 1\nSV\n"
    (tmp_path / "model").write_text(head + "1 1:1\n-1 2:1\n")  # which may count from 0 or 1
    for rows in ("1 0:1 1:3\n-1 0:1\n", "1 1:3\n-1\n"):
        data = tmp_path / "rows"
        data.write_text(rows)
        if in_hdf5:
            assert run(capsys, "convert", data, tmp_path / "rows.h5", "--no-shuffle", "--force")[0] == 0
            data = tmp_path / "rows.h5"
        code, _, err = run(capsys, "predict", tmp_path / "model", data, "-o", tmp_path / "out.csv", "--force")
        assert code == 0, err
        assert pd.read_csv(tmp_path / "out.csv")["decision"].abs().tolist() == [3, 0]


def test_texts_of_a_program_that_knows_no_index_0(tmp_path, capsys):
    (tmp_path / "rows").write_text("1 0:1 1:3\n-1 1:1\n")
    assert run(capsys, "train", tmp_path / "rows", "-o", tmp_path / "linear", "--model", "linear")[0] == 0
    code, _, err = run(capsys, "convert-model", tmp_path / "linear", tmp_path / "linear.txt")
    assert code == 0 and "The first feature has the index 1" in err and "one more there" in err
