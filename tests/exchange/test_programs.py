"""The programs of LIBSVM and LIBLINEAR themselves: they predict by our texts, and we by theirs.

They print labels for classes and numbers, with 17 digits, for a regression. Decision values are seen by calling the
same expansion a regression.
"""

import shutil
import subprocess

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import fastsvm
from fastsvm import SVC, LinearSVC

RTOL, ATOL = 1e-9, 1e-9


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


@pytest.fixture
def data(overlapping, three_classes, tmp_path):
    """Return data sets of two and three classes, with files of their text."""
    found = {}
    for name, (X, y) in {"two": overlapping, "three": three_classes}.items():
        X = np.where(np.abs(X) < 0.3, 0, X)  # some values are not in the text
        y = np.array([3, -2, 8])[y]
        dump_svmlight_file(X, y, str(tmp_path / name), zero_based=False)
        found[name] = X, y, tmp_path / name
    return found


def predicted(program, data, model, folder):
    subprocess.run([program, data, model, folder / "out"], check=True, capture_output=True, timeout=60)
    return np.loadtxt(folder / "out")


def pairs(values):
    return " ".join(f"{index}:{value!r}" for index, value in enumerate(values, 1))


def as_regression(model, folder):
    """Return a text with the same decision function, whose values the programs print."""
    changes = {"svm_type c_svc": "svm_type epsilon_svr"}
    lines = [changes.get(line, line) for line in model.read_text().splitlines()]
    lines = [line for line in lines if line.split()[0] not in ("label", "nr_sv")]
    if lines[0].startswith("solver_type"):
        lines[0] = "solver_type L2R_L2LOSS_SVR"
    (folder / "regression").write_text("\n".join(lines) + "\n")
    return folder / "regression"


@needs("svm-train", "svm-predict")
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_svm_predict_reads_what_we_write(kernel, data, tmp_path):
    for X, y, path in data.values():
        model = SVC(kernel=kernel, C=3, coef0=0.4, gamma=0.2).fit(X, y)
        fastsvm.save_libsvm(model, tmp_path / "m")
        np.testing.assert_array_equal(predicted("svm-predict", path, tmp_path / "m", tmp_path), model.predict(X))
        if len(model.classes_) == 2:  # the text's decisions are positive for the first class
            found = predicted("svm-predict", path, as_regression(tmp_path / "m", tmp_path), tmp_path)
            np.testing.assert_allclose(found, -model.decision_function(X), rtol=RTOL, atol=ATOL)


@needs("svm-train", "svm-predict")
def test_kernel_values_are_read_and_written(data, tmp_path):
    X, y, _ = data["two"]
    K = (X @ X.T + 1) ** 2
    text = tmp_path / "K"
    rows = zip(y, np.column_stack([np.arange(1, len(K) + 1), K]).tolist(), strict=True)
    text.write_text("".join(f"{label} 0:{int(row[0])} {pairs(row[1:])}\n" for label, row in rows))
    model = SVC(kernel="precomputed", C=0.1).fit(K, y)
    fastsvm.save_libsvm(model, tmp_path / "m")
    found = predicted("svm-predict", text, as_regression(tmp_path / "m", tmp_path), tmp_path)
    np.testing.assert_allclose(found, -model.decision_function(K), rtol=RTOL, atol=ATOL)
    subprocess.run(["svm-train", "-q", "-t", "4", "-c", "0.1", text, tmp_path / "m"], check=True, timeout=60)
    again = fastsvm.load_libsvm(tmp_path / "m", n_features=len(K))
    found = predicted("svm-predict", text, as_regression(tmp_path / "m", tmp_path), tmp_path)
    first = int((tmp_path / "m").read_text().split("label ")[1].split()[0])
    sign = 1 if first == again.classes_[1] else -1
    np.testing.assert_allclose(sign * found, again.decision_function(K), rtol=RTOL, atol=ATOL)


@needs("svm-train", "svm-predict")
@pytest.mark.parametrize("options", ["-t 0", "-t 1 -r 1 -g 0.3", "-t 2 -c 5", "-t 3 -g 0.1"])
def test_we_read_what_svm_train_writes(options, data, tmp_path):
    for X, y, path in data.values():
        subprocess.run(["svm-train", "-q", *options.split(), path, tmp_path / "m"], check=True, timeout=60)
        model = fastsvm.load_libsvm(tmp_path / "m", n_features=X.shape[1])
        labels = predicted("svm-predict", path, tmp_path / "m", tmp_path)
        if len(model.classes_) == 2:
            np.testing.assert_array_equal(model.predict(X), labels)
            found = predicted("svm-predict", path, as_regression(tmp_path / "m", tmp_path), tmp_path)
            sign = 1 if (tmp_path / "m").read_text().split("label ")[1].startswith(str(model.classes_[1])) else -1
            np.testing.assert_allclose(model.decision_function(X), sign * found, rtol=RTOL, atol=ATOL)
        else:  # where votes tie, LIBSVM takes the class that comes first in its text
            top = np.sort(model.decision_function(X).round(), axis=1)
            clear = top[:, -1] > top[:, -2]
            assert clear.mean() > 0.9
            np.testing.assert_array_equal(model.predict(X)[clear], labels[clear])
        assert np.mean(model.predict(X) == y) > 0.5


@needs("liblinear-train", "liblinear-predict")
def test_liblinear_predict_reads_what_we_write(data, tmp_path):
    for X, y, path in data.values():
        for model in (LinearSVC(standardize=True), LinearSVC(multi_class="crammer_singer"), LinearSVC(loss="hinge")):
            fastsvm.save_libsvm(model.fit(X, y), tmp_path / "m")
            labels = predicted("liblinear-predict", path, tmp_path / "m", tmp_path)
            np.testing.assert_array_equal(labels, model.predict(X))
            if len(model.classes_) == 2 and model.multi_class == "ovr":
                found = predicted("liblinear-predict", path, as_regression(tmp_path / "m", tmp_path), tmp_path)
                np.testing.assert_allclose(found, model.decision_function(X), rtol=RTOL, atol=ATOL)


@needs("liblinear-train", "liblinear-predict")
@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 21])
def test_we_read_what_liblinear_train_writes(solver, data, tmp_path):
    for X, _, path in data.values():
        options = ["-q", "-s", str(solver), *(["-B", "1"] if solver != 21 else [])]
        subprocess.run(["liblinear-train", *options, path, tmp_path / "m"], check=True, timeout=60)
        model = fastsvm.load_libsvm(tmp_path / "m")
        found = predicted("liblinear-predict", path, tmp_path / "m", tmp_path)
        np.testing.assert_allclose(model.predict(X), found, rtol=RTOL, atol=ATOL)
