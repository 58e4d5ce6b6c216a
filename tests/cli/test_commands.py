"""The command line end to end, in-process, with its exit codes."""

import contextlib
import csv
import json
import os
import select
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import fastsvm.jobs.demo
from fastsvm.cli import main


@pytest.fixture
def iris(tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "iris.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*row, f"kind {label}"] for row, label in zip(X, y, strict=True))
    return path


def run(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def report(capsys, *words):
    code, out, err = run(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_from_text_to_predictions(iris, tmp_path, capsys):
    data, model, output = tmp_path / "iris.h5", tmp_path / "iris.model", tmp_path / "out.csv"
    converted = report(capsys, "convert", iris, data)
    assert (converted["n_samples"], converted["n_features"], converted["n_classes"]) == (150, 4, 3)
    found = report(capsys, "info", data)
    assert found["class_counts"] == {"kind 0": 50, "kind 1": 50, "kind 2": 50}
    trained = report(capsys, "train", data, "-o", model, "--C", 10, "--kernel", "rbf", "--holdout", 0.2)
    assert trained["n_test"] == 30 and trained["n_samples"] == 120
    assert trained["accuracy"] > 0.9 and trained["converged"] and trained["passes"] > 0
    parameters = report(capsys, "info", model)["parameters"]
    assert parameters["C"] == 10 and parameters["verbose"] is False
    evaluated = report(capsys, "evaluate", model, data)
    assert evaluated["accuracy"] > 0.95 and np.sum(evaluated["confusion"]) == 150
    predicted = report(capsys, "predict", model, data, "-o", output)
    assert predicted["accuracy"] == evaluated["accuracy"]
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150 and {row["prediction"] for row in rows} == {"kind 0", "kind 1", "kind 2"}
    report(capsys, "predict", model, data, "-o", tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert list(file["prediction"].asstr()[:]) == [row["prediction"] for row in rows]
        assert file["decision"].shape == (150, 3)


def test_the_report_for_people_names_the_certificate(iris, tmp_path, capsys):
    run(capsys, "convert", iris, tmp_path / "iris.h5")
    code, out, _ = run(capsys, "train", tmp_path / "iris.h5", "--holdout", "0.1")
    assert code == 0
    for word in ("accuracy", "objective", "kkt violation", "n support", "passes", "read mb per second"):
        assert word in out


@pytest.mark.parametrize("kind", ["one-class", "linear-one-class"])
def test_one_class_needs_no_labels(kind, tmp_path, capsys):
    model, rows = tmp_path / "m", np.random.default_rng(0).normal(2, size=(60, 2))
    with h5py.File(tmp_path / "rows.h5", "w") as file, h5py.File(tmp_path / "known.h5", "w") as known:
        file["X"] = known["X"] = rows
        known["y"] = np.where(rows[:, 0] > 3, -1, 1)
    trained = report(capsys, "train", tmp_path / "rows.h5", "-o", model, "--model", kind, "--nu", "0.3")
    assert trained["converged"] and trained["accuracy"] is trained["r2"] is None
    assert report(capsys, "predict", model, tmp_path / "rows.h5", "-o", tmp_path / "out.h5")["accuracy"] is None
    with h5py.File(tmp_path / "out.h5") as file:
        found = file["prediction"][:]
    assert set(found) == {-1, 1}
    evaluated = report(capsys, "evaluate", model, tmp_path / "known.h5")
    assert evaluated["accuracy"] == pytest.approx(np.mean(found == np.where(rows[:, 0] > 3, -1, 1)))
    code, _, err = run(capsys, "train", tmp_path / "known.h5", "--model", kind, "--holdout", "0.2")
    assert code != 0 and "learns no labels" in err


def test_one_class_learns_all_columns_of_a_table_without_labels(tmp_path, capsys):
    table, job = tmp_path / "rows.csv", tmp_path / "job.toml"
    np.savetxt(table, np.random.default_rng(0).normal(size=(60, 2)), delimiter=",", header="a,b", comments="")
    code, out, err = run(capsys, "train", table, "-o", tmp_path / "m", "--model", "one-class", "--json")
    assert code == 0 and json.loads(out)["n_features"] == 2
    assert "labels: none, no column has their usual name; all columns are features unless --label names one" in err
    given = ("--label", "b", "--model", "one-class")
    assert report(capsys, "train", table, "-o", tmp_path / "named", *given)["n_features"] == 1
    job.write_text('[data]\ntrain = "rows.csv"\n[model]\nkind = "one-class"\n')
    assert report(capsys, "run", job, "--folder", tmp_path / "run")["n_features"] == 2
    code, _, err = run(capsys, "train", table, "--no-label", "--model", "svr")
    assert code == 2 and "Training needs labels" in err


@pytest.mark.parametrize("label", ["1", "1.0", "1e0"])
def test_class_weights_of_numbers_are_given_in_any_form(label, tmp_path, capsys):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = np.arange(40.0)[:, None], np.where(np.arange(40) > 15, 1.0, -1.0)
    given = ("--model", "linear", "--class-weight", f'{{"{label}": 7}}')
    report(capsys, "train", tmp_path / "rows.h5", "-o", tmp_path / "m", *given)
    assert report(capsys, "info", tmp_path / "m")["parameters"]["class_weight"] == {"1.0": 7}


def test_class_weights_are_given_by_label(iris, tmp_path, capsys):
    run(capsys, "convert", iris, tmp_path / "iris.h5")
    weights = json.dumps({"kind 1": 100.0})
    report(capsys, "train", tmp_path / "iris.h5", "-o", tmp_path / "m", "--class-weight", weights)
    assert report(capsys, "info", tmp_path / "m")["parameters"]["class_weight"] == {"kind 1": 100.0}


def write(path, **columns):
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[name] = values
    return path


@pytest.mark.parametrize(
    ("columns", "words", "message"),
    [
        ({"y": [0, 1]}, [], "no dataset or CSR group 'X'"),
        ({"X": np.eye(2)}, [], "no labels"),
        ({"X": np.eye(2), "y": [0, 1, 1]}, [], "must have shape"),
        ({"X": np.eye(2), "y": [1, 1]}, [], "classes"),
        ({"X": [[0.0, 1.0], [np.nan, 0.0]], "y": [0, 1]}, [], "row 1, column 0"),
        ({"X": np.eye(2), "y": [0, 1]}, ["--C", "0"], "'C'"),
        ({"X": np.eye(2), "y": [0, 1]}, ["--kernel", "cubic"], "'kernel'"),
        ({"X": np.eye(2), "y": [0, 1]}, ["--memory", "much"], "memory"),
        ({"X": np.eye(2), "y": [0, 1]}, ["--memory", "100"], "are enough"),
        ({"X": np.eye(2), "y": [0, 1]}, ["--holdout", "1"], "holdout"),
        ({"X": np.eye(2), "y": [0, 1]}, ["-o", "missing/folder/model"], "no folder"),
    ],
)
def test_bad_input_to_train_is_code_2_one_line_and_no_file(columns, words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.h5", **columns)
    words = words if "-o" in words else [*words, "-o", "model"]
    code, out, err = run(capsys, "train", data, *words)
    assert code == 2 and out == ""
    assert message in err and err.count("\n") == 1
    assert os.listdir(tmp_path) == ["data.h5"]


@pytest.mark.parametrize("command", [["info"], ["train"], ["evaluate", "data.h5"], ["predict", "data.h5", "-o", "out"]])
def test_missing_and_wrong_files_are_code_2(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, command[0], *command[1:2], "absent.h5", *command[2:])
    assert code == 2 and "There is no" in err
    (tmp_path / "data.h5").write_text("text")
    (tmp_path / "absent.h5").write_text("text")
    code, _, err = run(capsys, command[0], *command[1:2], "absent.h5", *command[2:])
    assert code == 2 and ("HDF5" in err or "not a model file" in err)
    assert not (tmp_path / "out").exists()


def test_wrong_features_at_prediction_leave_no_output(iris, tmp_path, capsys):
    run(capsys, "convert", iris, tmp_path / "iris.h5")
    run(capsys, "train", tmp_path / "iris.h5", "-o", tmp_path / "model")
    other = write(tmp_path / "other.h5", X=np.eye(3), y=[0, 1, 1])
    code, _, err = run(capsys, "predict", tmp_path / "model", other, "-o", tmp_path / "out.csv")
    assert code == 2 and "3 features" in err
    assert sorted(os.listdir(tmp_path)) == ["iris.csv", "iris.h5", "model", "other.h5"]


def test_an_early_stop_is_told_and_the_model_kept(iris, tmp_path, capsys):
    run(capsys, "convert", iris, tmp_path / "iris.h5")
    code, out, err = run(capsys, "train", tmp_path / "iris.h5", "-o", tmp_path / "model", "--max-iter", "2")
    assert code == 0 and "max_iter" in err and "What to try" in err
    assert (tmp_path / "model").exists() and "converged" in out


@pytest.mark.skipif(os.name == "nt", reason="signals and terminals are those of POSIX")
def test_ctrl_c_is_130_and_leaves_nothing(tmp_path, forks):
    """It comes when the bar has shown an iteration: Python ignores one that falls into a finalizer of the compiler."""
    import pty  # Windows has neither of them
    import termios

    rng = np.random.default_rng(0)  # a fit of many minutes
    data = write(tmp_path / "data.h5", X=rng.normal(size=(3000, 2)), y=rng.integers(0, 2, 3000))
    words = ["train", str(data), "-o", str(tmp_path / "model"), "--C", "1e6", "--tol", "1e-9"]
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 120))
    with open(terminal, "rb", buffering=0) as shown:
        process, text = forks.start(*words, err=os.ttyname(end)), b""
        while b"violation" not in text and process.poll() is None:
            if select.select([shown], [], [], 0.1)[0]:
                text += shown.read(1000)
        process.send_signal(signal.SIGINT)
        os.close(end)
        with contextlib.suppress(OSError):  # which is how the end of a terminal is told
            while more := shown.read(1000):
                text += more
    assert process.wait(timeout=60) == 130 and b"interrupted" in text, text
    assert os.listdir(tmp_path) == ["data.h5"]


def test_the_demo_prints_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fastsvm.jobs.demo, "demo", partial(fastsvm.jobs.demo.demo, n_training=300))
    assert main(["demo", "--folder", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "times faster",
        "the same predictions",
        "kernel matrix would take",
        "largest violation",
        "compiling, once",
        "first answer",
    ):
        assert words in shown
    assert str(tmp_path) in shown


def test_inputs_are_not_overwritten_and_folders_not_written(iris, tmp_path, capsys):
    data, model = tmp_path / "iris.h5", tmp_path / "model"
    run(capsys, "convert", iris, data)
    run(capsys, "train", data, "-o", model)
    kept = data.read_bytes(), model.read_bytes()
    for words in (["train", data], ["predict", model, data]):
        words = [*words, "-o", data if words[0] == "train" else model]
        code, _, err = run(capsys, *words)
        assert code == 2 and "read by this command" in err
    assert (data.read_bytes(), model.read_bytes()) == kept
    code, _, err = run(capsys, "train", data, "-o", tmp_path)
    assert code == 2 and "is a folder" in err


@pytest.mark.parametrize("words", [["--gamma", ".5"], ["--C", "1."], ["--max-iter", "1e6"], ["--tol", "1e-4"]])
def test_numbers_as_people_write_them(words, iris, tmp_path, capsys):
    run(capsys, "convert", iris, tmp_path / "iris.h5")
    code, _, err = run(capsys, "train", tmp_path / "iris.h5", *words)
    assert code == 0, err


def test_linear_models_from_text_to_predictions(iris, tmp_path, capsys):
    data, model, output = tmp_path / "iris.h5", tmp_path / "iris.model", tmp_path / "out.csv"
    report(capsys, "convert", iris, data)
    words = "--model", "sgd", "--loss", "softmax", "--alpha", 1e-3, "--max-iter", 200, "--tol", "none", "--standardize"
    trained = report(capsys, "train", data, "-o", model, *words, "--holdout", 0.2)
    assert trained["accuracy"] > 0.9 and trained["n_iter"] == 200 and trained["converged"]
    assert trained["kkt_violation"] is None and trained["n_support"] is None
    found = report(capsys, "info", model)["parameters"]
    assert (found["loss"], found["tol"], found["standardize"]) == ("softmax", None, True)
    assert report(capsys, "evaluate", model, data)["accuracy"] > 0.9
    report(capsys, "predict", model, data, "-o", output)
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150 and set(rows[0]) == {"prediction", "decision_0", "decision_1", "decision_2"}


def test_the_same_seed_trains_the_same_model(iris, tmp_path, capsys):
    report(capsys, "convert", iris, tmp_path / "iris.h5")
    words = "train", tmp_path / "iris.h5", "--model", "sgd", "--batch-size", 8, "--seed"
    first, again, other = (report(capsys, *words, seed)["objective"] for seed in (1, 1, 2))
    assert first == again != other


def test_regressions(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    with h5py.File(tmp_path / "line.h5", "w") as file:
        file["X"], file["y"] = X, X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=400)
    words = "train", tmp_path / "line.h5", "-o", tmp_path / "line.model", "--model", "sgd-regressor", "--holdout", 0.25
    trained = report(capsys, *words)
    assert trained["r2"] > 0.95 and trained["accuracy"] is None and trained["n_classes"] is None
    assert report(capsys, "evaluate", tmp_path / "line.model", tmp_path / "line.h5")["r2"] > 0.95


def test_training_searches_what_is_not_passed(iris, tmp_path, capsys):
    found = report(capsys, "train", iris, "-o", tmp_path / "m.model", "--search", "--gamma", 0.1)["search"]
    assert set(found["parameters"]) == {"C", "standardize"}
    assert found["mean_score"] > 0.9
    saved = report(capsys, "info", tmp_path / "m.model")["parameters"]
    assert saved["gamma"] == 0.1 and saved["C"] == found["parameters"]["C"]


def test_a_parameter_of_another_model_is_refused(iris, tmp_path, capsys):
    report(capsys, "convert", iris, tmp_path / "iris.h5")
    code, _, err = run(capsys, "train", tmp_path / "iris.h5", "--model", "sgd", "--gamma", 1)
    assert code == 2 and "--gamma" in err and "alpha" in err


def test_weights_in_a_file_with_rows_held_out(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = X, (X[:, 0] > 0).astype(int), rng.random(400)
    assert report(capsys, "train", tmp_path / "w.h5", "--model", "sgd", "--holdout", 0.25)["accuracy"] > 0.9


def test_averaging_after_some_rows(iris, tmp_path, capsys):
    report(capsys, "convert", iris, tmp_path / "iris.h5")
    words = "train", tmp_path / "iris.h5", "--model", "sgd", "--max-iter", 20, "--tol", "none", "--average"
    assert len({report(capsys, *words, average)["objective"] for average in ("true", "false", 600)}) == 3


def test_classes_are_not_compared_with_numbers(iris, tmp_path, capsys):
    report(capsys, "convert", iris, tmp_path / "iris.h5")
    report(capsys, "train", tmp_path / "iris.h5", "-o", tmp_path / "m", "--model", "sgd")
    with h5py.File(tmp_path / "line.h5", "w") as file:
        file["X"], file["y"] = np.ones((9, 4)), np.linspace(0.1, 1, 9)
    code, _, err = run(capsys, "evaluate", tmp_path / "m", tmp_path / "line.h5")
    assert code == 2 and "real numbers" in err
    code, _, err = run(capsys, "train", tmp_path / "iris.h5", "--model", "sgd-regressor")
    assert code == 2 and "strings" in err


@pytest.mark.parametrize("kind", ["ovr", "crammer_singer", "weston_watkins"])
def test_linear_svms_from_text_to_predictions(kind, iris, tmp_path, capsys):
    data, model, output = tmp_path / "iris.h5", tmp_path / "iris.model", tmp_path / "out.csv"
    report(capsys, "convert", iris, data)
    words = "--model", "linear", "--multi-class", kind, "--C", 3, "--tol", 1e-3, "--standardize"
    trained = report(capsys, "train", data, "-o", model, *words, "--holdout", 0.2)
    assert trained["accuracy"] > 0.8 and trained["converged"]
    assert 0 <= trained["duality_gap"] <= 1e-3 * trained["objective"]
    found = report(capsys, "info", model)["parameters"]
    assert (found["C"], found["multi_class"], found["standardize"]) == (3, kind, True)
    evaluated = report(capsys, "evaluate", model, data)
    assert evaluated["accuracy"] > 0.8
    assert report(capsys, "predict", model, data, "-o", output)["accuracy"] == evaluated["accuracy"]
    with output.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150 and set(rows[0]) == {"prediction", "decision_0", "decision_1", "decision_2"}


def test_linear_regressions(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    write(tmp_path / "line.h5", X=X, y=X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=400))
    words = "--model", "linear-regressor", "--epsilon", 0.05, "--holdout", 0.25
    trained = report(capsys, "train", tmp_path / "line.h5", "-o", tmp_path / "line.model", *words)
    assert trained["r2"] > 0.95 and trained["accuracy"] is None and trained["converged"]
    assert report(capsys, "evaluate", tmp_path / "line.model", tmp_path / "line.h5")["r2"] > 0.95
    code, _, err = run(capsys, "train", tmp_path / "line.h5", "--model", "linear-regressor", "--gamma", 1)
    assert code == 2 and "--gamma" in err


def test_the_same_seed_trains_the_same_linear_svm(iris, tmp_path, capsys):
    report(capsys, "convert", iris, tmp_path / "iris.h5")
    words = (
        "train",
        tmp_path / "iris.h5",
        "--model",
        "linear",
        "--multi-class",
        "crammer_singer",
        "--tol",
        0.1,
        "--seed",
    )
    first, again, other = (report(capsys, *words, seed)["objective"] for seed in (1, 1, 2))
    assert first == again != other


def test_an_early_stop_of_a_linear_svm_is_told_and_the_model_kept(iris, tmp_path, capsys):
    run(capsys, "convert", iris, tmp_path / "iris.h5")
    words = "train", tmp_path / "iris.h5", "-o", tmp_path / "model", "--model", "linear", "--max-iter", 2
    code, out, err = run(capsys, *words)
    assert code == 0 and "max_iter" in err and "What to try" in err
    assert (tmp_path / "model").exists() and "duality gap" in out


_OBEYED = "\x1b[31mred\x07\r\nnext\u202etxt"


def test_labels_do_not_steer_the_terminal_nor_the_page(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.array([_OBEYED, "plain"])[np.arange(60) % 2]
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"] = X, y.astype(object)
    code, out, err = run(capsys, "train", tmp_path / "data.h5", "--folder", tmp_path / "run", "--holdout", 0.3)
    shown = [out, err]
    data, model = tmp_path / "data.h5", tmp_path / "run" / "model.fastsvm"
    for words in (("info", data), ("evaluate", model, data)):
        code, out, err = run(capsys, *words)
        assert code == 0, err
        shown += [out, err]
    shown.append((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    for text in shown:
        assert not any(character in text for character in "\x1b\x07\r\u202e")
    assert any(r"\x1b[31mred\x07\r\nnext\u202etxt" in text for text in shown)
    code, out, _ = run(capsys, "info", tmp_path / "data.h5", "--json")
    assert _OBEYED in json.loads(out)["class_counts"]  # a program is told what it is


def test_errors_do_not_steer_the_terminal(tmp_path, capsys):
    code, _, err = run(capsys, "info", tmp_path / "\x1b[2Jno.h5")
    assert code == 2 and "\x1b" not in err and r"\x1b[2Jno.h5" in err


def test_labels_are_no_formulas_in_a_table(tmp_path, capsys):
    labels = ["=1+1", "+a", "-b", "@c", "\tx", "'=q", "it's", "-1.5e3", "plain", "＝2"]
    X = np.eye(10).repeat(4, axis=0)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"] = X, np.array(labels, object).repeat(4)
    report(capsys, "train", tmp_path / "data.h5", "-o", tmp_path / "model", "--C", 100, "--kernel", "linear")
    report(capsys, "predict", tmp_path / "model", tmp_path / "data.h5", "-o", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        read = [row["prediction"] for row in csv.DictReader(file)]
    for found in (read, pd.read_csv(tmp_path / "out.csv", dtype={"prediction": str})["prediction"].tolist()):
        wanted = ["'=1+1", "'+a", "'-b", "'@c", "'\tx", "''=q", "it's", "-1.5e3", "plain", "'＝2"]
        assert found == [word for word in wanted for _ in range(4)]


def test_numbers_stay_numbers_in_a_table(tmp_path, capsys):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"] = np.array([[-1.0], [1.0]] * 10), np.array([-1, 1] * 10)
    report(capsys, "train", tmp_path / "data.h5", "-o", tmp_path / "model")
    report(capsys, "predict", tmp_path / "model", tmp_path / "data.h5", "-o", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["prediction"].tolist() == [-1, 1] * 10
    assert (np.sign(found["decision"]) == found["prediction"]).all()


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_ctrl_c_while_the_command_starts_is_130_in_a_line(tmp_path, heard):
    """It comes when the package imports Numba, for which a module stands that sends the signal."""
    (tmp_path / "numba.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    (tmp_path / "fastsvm").write_text("from fastsvm.cli import main\n")  # as the script of an installation
    (tmp_path / "program.py").write_text("try:\n    import fastsvm\nexcept KeyboardInterrupt:\n    print('caught')\n")
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(fastsvm.__file__).parents[1])])}
    for words in (["-m", "fastsvm", "info", "x"], [str(tmp_path / "fastsvm")], [str(tmp_path / "program.py")]):
        run = [sys.executable, *words]
        found = subprocess.run(run, env=variables, capture_output=True, text=True, timeout=60)
        if words[-1].endswith("program.py"):  # programs keep their own handler
            assert (found.returncode, found.stdout) == (0, "caught\n")
        else:
            assert (found.returncode, found.stderr) == (130, "fastsvm: interrupted\n")
