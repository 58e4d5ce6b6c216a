"""Commands on files in every format, with labels and without."""

import json
import os
import tempfile

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import fastsvm
from fastsvm.cli import main
from fastsvm.files.atomic_file import has_locks
from fastsvm.formats import convert
from fastsvm.jobs.inputs import as_hdf5
from fastsvm.sources import open_hdf5

X, KIND = load_iris(return_X_y=True)
X = X.astype(np.float32)
NAMES = np.array(["setosa", "versicolor", "virginica"])


def write_csv(path, header=("a", "b", "c", "d"), X=X, y=None, name="species"):
    lines = [",".join([*header, *([] if y is None else [name])])]
    lines += [",".join([*map(str, x), *([] if y is None else [str(y[k])])]) for k, x in enumerate(X.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def written_as(form, folder):
    """Write iris in some format."""
    path = folder / f"iris.{form}"
    if form == "csv":
        return write_csv(path, y=KIND, name="label")
    if form == "svmlight":
        dump_svmlight_file(X, KIND, str(path), zero_based=False)
    elif form == "npz":
        np.savez(path, X=X, y=KIND)
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.DataFrame(X, columns=list("abcd")).assign(label=KIND).to_parquet(path)
    return path


@pytest.fixture
def told(capsys):
    """Return a function that runs a command and returns its report and what it says."""

    def run(*words):
        assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
        out, err = capsys.readouterr()
        return json.loads(out), err

    return run


@pytest.fixture
def refused(capsys):
    def run(*words):
        assert main(list(map(str, words))) == 2
        *said, error = capsys.readouterr().err.splitlines()
        assert all("is read as" in line or "the model is not saved" in line for line in said)
        return error

    return run


@pytest.fixture
def model(tmp_path):
    """Return the file of a model that was fitted on a file with names of features."""
    write_csv(tmp_path / "train.csv", y=NAMES[KIND])
    convert(tmp_path / "train.csv", tmp_path / "train.h5")
    with open_hdf5(tmp_path / "train.h5") as data:
        fastsvm.save(fastsvm.SVC(gamma=0.5).fit(data), tmp_path / "model")
    for name in ("train.csv", "train.h5"):
        (tmp_path / name).unlink()
    return tmp_path / "model"


@pytest.mark.parametrize("form", ["csv", "svmlight", "npz", "parquet"])
def test_every_command_takes_every_format(form, told, tmp_path):
    path = written_as(form, tmp_path)
    found, said = told("info", path)
    assert (found["n_samples"], found["n_features"], found["n_classes"]) == (150, 4, 3)
    assert f"{path} is read as 150 rows of 4 features" in said
    report, said = told("train", path, "-o", tmp_path / "model", "--gamma", "0.5")
    assert report["n_samples"] == 150 and report["n_classes"] == 3 and "is read as" in said
    found, _ = told("evaluate", tmp_path / "model", path)
    assert found["accuracy"] > 0.95
    found, _ = told("predict", tmp_path / "model", path, "-o", tmp_path / "out.csv")
    assert found["accuracy"] > 0.95
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert np.mean([line.split(",")[0] == str(y) for line, y in zip(lines, KIND, strict=True)]) > 0.95
    told("train", path, "--folder", tmp_path / "run", "--gamma", "0.5")
    assert sorted(os.listdir(tmp_path)) == [path.name, "model", "out.csv", "run"]


def test_new_samples_without_labels(told, model, tmp_path):
    new = write_csv(tmp_path / "new.csv")
    report, said = told("predict", model, new, "-o", tmp_path / "out.csv")
    assert report["accuracy"] is None and "labels: none, there are only features of the model" in said
    first = (tmp_path / "out.csv").read_bytes()
    for header in (("d", "c", "b", "a"), ("b", "a", "d", "c")):  # columns are found by their names
        order = [list("abcd").index(name) for name in header]
        other = write_csv(tmp_path / "other.csv", header, X[:, order], np.arange(150), "species")
        report, said = told("predict", model, other, "-o", tmp_path / "out.csv", "--force", "--id", "species")
        lines = (tmp_path / "out.csv").read_text().splitlines()
        assert lines[0].startswith("id,prediction") and "labels: none" in said
        assert "\n".join(line.split(",", 1)[1] for line in lines) == first.decode().replace("\r\n", "\n").rstrip("\n")


def test_which_column_is_the_label_is_said(told, tmp_path):
    path = write_csv(tmp_path / "iris.csv", y=NAMES[KIND])
    for words, reason in (([], "the last"), (["--label", "species"], "as asked"), (["--label", "4"], "as asked")):
        _, said = told("train", path, "--max-iter", "3", *words)
        assert f"labels: column 5 (species), {reason}: 3 classes" in said
    numbers = write_csv(tmp_path / "numbers.csv", X=X)
    report, _ = told("convert", numbers, tmp_path / "numbers.h5", "--label", "a")
    assert report["labels"] == "column 1 (a), as asked: real numbers from 4.3 to 7.9"
    report, _ = told("convert", numbers, tmp_path / "numbers.h5", "--no-label", "--force")
    assert report["labels"] == "none, as asked" and report["n_features"] == 4 and report["n_classes"] is None


def test_a_column_that_looks_like_an_index_is_said(told, tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(X).assign(y=KIND).to_csv(tmp_path / "iris.csv")
    _, said = told("convert", tmp_path / "iris.csv", tmp_path / "iris.h5")
    assert "note: column 1 counts the rows and is used as a feature" in said
    report, said = told("convert", tmp_path / "iris.csv", tmp_path / "iris.h5", "--id", "0", "--force")
    assert "note" not in said and report["n_features"] == 4


def test_other_features_are_refused(refused, model, tmp_path):
    words = ["predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv"]
    write_csv(tmp_path / "new.csv", ("a", "b", "c", "e"))
    assert "no column 'd', a feature of the model" in refused(*words)
    write_csv(tmp_path / "new.csv", ("p", "q", "r", "s"))
    assert "Feature 0 is 'p', in the fit it was 'a'" in refused(*words)
    write_csv(tmp_path / "new.csv", ("a", "b", "c"), X[:, :3])
    assert "no column 'd'" in refused(*words)
    assert sorted(os.listdir(tmp_path)) == ["model", "new.csv"]


def test_options_that_do_not_apply(refused, model, tmp_path):
    path = write_csv(tmp_path / "iris.csv", y=NAMES[KIND])
    convert(path, tmp_path / "iris.h5")
    assert "iris.h5 has no part 'a'" in refused("info", tmp_path / "iris.h5", "--sample-weight", "a")
    for option in (["--id", "a"], ["--first-index", "0"]):
        assert "Files that are converted take" in refused("info", tmp_path / "iris.h5", *option)
    assert "first_index does not apply to csv, only to svmlight" in refused("info", path, "--first-index", "0")
    assert "trains on the part 'train'" in refused("train", path, "--folder", tmp_path / "run", "--split", "test")
    assert "split does not apply to csv" in refused("info", path, "--split", "test")
    assert "Training needs labels" in refused("train", path, "--no-label")
    assert "There is no format 'excel'" in refused("info", path, "--format", "excel")
    assert "must have one column 'kind'" in refused("train", path, "--label", "kind")
    assert "has no labels to compare" in refused("evaluate", model, write_csv(tmp_path / "new.csv"))


def test_outputs_that_exist_are_kept(refused, told, model, tmp_path):
    path = write_csv(tmp_path / "iris.csv", y=NAMES[KIND])
    out = tmp_path / "out"
    out.write_text("kept")
    commands = [["convert", path, out], ["train", path, "-o", out], ["predict", model, path, "-o", out]]
    for words in commands:
        assert "exists. Pass --force to replace it, or name another file." in refused(*words)
        assert out.read_text() == "kept"
    for words in commands:
        told(*words, "--force")
        assert out.read_bytes() != b"kept"


def test_a_killed_prediction_of_a_table_resumes(told, model, tmp_path, monkeypatch, choose, capsys):
    from fastsvm.jobs.predict import PredictionFile

    choose(jobs={"block_rows": 20})
    path = write_csv(tmp_path / "iris.csv", y=NAMES[KIND])
    told("predict", model, path, "-o", tmp_path / "whole.csv")
    append, calls = PredictionFile.append, []

    def some(self, *block):
        append(self, *block)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PredictionFile, "append", some)
        assert main(["predict", str(model), str(path), "-o", str(tmp_path / "out.csv")]) == 130
    capsys.readouterr()
    _, said = told("predict", model, path, "-o", tmp_path / "out.csv")
    assert "resumed after 60 of 150 rows" in said
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_the_table_of_a_test_has_the_features_of_the_training(told, tmp_path):
    train = write_csv(tmp_path / "train.csv", y=NAMES[KIND])
    write_csv(tmp_path / "test.csv", ("d", "c", "b", "a"), X[:, ::-1], NAMES[KIND])
    job = tmp_path / "job.toml"
    job.write_text(f'[data]\ntrain = "{train.name}"\ntest = "test.csv"\nlabel = "species"\n[model]\ngamma = 0.5\n')
    report, _ = told("run", job, "--folder", tmp_path / "run")
    assert report["accuracy"] > 0.95 and report["n_features"] == 4


def test_times_are_not_rounded_on_the_way(told, tmp_path):
    """Differences of 20 of Unix times are less than what float32 distinguishes."""
    time = 1.7e9 + 20 * np.random.default_rng(0).permutation(60)[:, None]
    y = (time[:, 0] > 1.7e9 + 600).astype(int)
    path = write_csv(tmp_path / "times.csv", ["time"], time, y, "label")
    wanted = fastsvm.SVC(standardize=True).fit(time, y)
    for words in (["-o", tmp_path / "model"], ["--folder", tmp_path / "run"]):
        _, said = told("train", path, "--standardize", *words)
        assert "feature 0 (time), which lies between 1700000000 and 1700001180" in said and "float64" in said
    for model in (tmp_path / "model", tmp_path / "run" / "model.fastsvm"):
        report, said = told("evaluate", model, path)
        assert report["accuracy"] == wanted.score(time, y) > 0.9 and "note" not in said
    few = write_csv(tmp_path / "few.csv", ["time"], time[:1], y[:1], "label")  # its only time has no range
    told("predict", tmp_path / "model", few, "-o", tmp_path / "out.csv")
    decision = float((tmp_path / "out.csv").read_text().splitlines()[1].split(",")[1])
    assert decision == pytest.approx(wanted.decision_function(time[:1])[0], abs=1e-3)


def test_errors_name_the_file_of_the_user(refused, model, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    for words in ([], ["--folder", tmp_path / "run"]):
        assert f"fastsvm: {tmp_path / 'rows.npy'} has no labels" in refused("train", tmp_path / "rows.npy", *words)
    real = write_csv(tmp_path / "real.csv", y=np.arange(150) / 7)
    assert f"The labels in {real} are real numbers" in refused("evaluate", model, real)


@pytest.mark.skipif(not has_locks(), reason="there are no locks")
def test_tables_of_killed_commands_are_removed_by_the_next_one(told, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    left = tmp_path / "fastsvm.0a1b2c3d.part"
    left.mkdir()
    (left / "data.h5").write_text("rows")
    with as_hdf5(tmp_path / "rows.csv") as file:
        left.mkdir()
        assert main(["status", str(tmp_path)]) == 2
        assert not left.exists() and file.exists() and file.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_columns_that_the_model_does_not_need_are_left_out(told, refused, model, tmp_path):
    _, said = told("predict", model, write_csv(tmp_path / "new.csv"), "-o", tmp_path / "wanted.csv")
    header = ("a", "b", "c", "d", "e", "f")
    for y, name in ((KIND, "note"), ([""] * 150, "species"), (["", *NAMES[KIND[1:]]], "species")):
        new = write_csv(tmp_path / "new.csv", header, np.hstack([X, X[:, :2]]), y, name)
        report, said = told("predict", model, new, "-o", tmp_path / "out.csv", "--force")
        assert report["accuracy"] is None and "labels: none" in said
        assert "note: Left out, for they are no features of the model: column 5 (e), column 6 (f)" in said
        assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "wanted.csv").read_bytes()
    assert "labels: none, column 7 (species) has no value in 1 of 150 rows" in said
    new = write_csv(tmp_path / "new.csv", header, np.hstack([X, X[:, :2]]), NAMES[KIND], "species")
    report, said = told("evaluate", model, new)
    assert report["accuracy"] > 0.95 and "column 7 (species), as in the training" in said


def test_a_raw_export_is_predicted(told, refused, tmp_path):
    """Its columns are in another order, and some are no features; the model remembers identifiers and labels, too."""
    rows = [f"c{k},{x[0]},{x[1]},{NAMES[kind]}" for k, (x, kind) in enumerate(zip(X, KIND, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(["who,a,b,species", *rows]))
    told("train", tmp_path / "rows.csv", "--label", "species", "--id", "who", "-o", tmp_path / "model")
    raw = [f"Rome,{x[1]},c{k},{x[0]}" for k, x in enumerate(X)]
    (tmp_path / "raw.csv").write_text("\n".join(["town,b,who,a", *raw]))
    _, said = told("predict", tmp_path / "model", tmp_path / "raw.csv", "-o", tmp_path / "out.csv")
    assert "note: Left out, for they are no features of the model: column 1 (town).\n" in said
    ids, labels = zip(*(line.split(",")[:2] for line in (tmp_path / "out.csv").read_text().splitlines()), strict=True)
    told("predict", tmp_path / "model", tmp_path / "rows.csv", "-o", tmp_path / "wanted.csv")
    expected = [line.split(",")[1] for line in (tmp_path / "wanted.csv").read_text().splitlines()]
    assert ids == ("id", *(f"c{k}" for k in range(150))) and list(labels) == expected
    words = ("predict", tmp_path / "model", tmp_path / "raw.csv", "-o", tmp_path / "out.csv", "--force", "--strict")
    assert "no features of the model: column 1 (town)" in refused(*words)
    assert told("evaluate", tmp_path / "model", tmp_path / "rows.csv", "--strict")[0]["accuracy"] > 0.5


def test_weights_of_a_table_count_in_a_fit(told, tmp_path):
    weight = np.linspace(0.1, 5, 150)
    header = ("a", "b", "c", "d", "weight")
    path = write_csv(tmp_path / "rows.csv", header, np.column_stack([X.astype(float), weight]), KIND, "y")
    words = ["--model", "linear", "--tol", "1e-6", "-o"]
    _, said = told("train", path, *words, tmp_path / "model")
    assert "column 5 (weight) is used as a feature" in said and "--sample-weight 'weight'" in said
    report, _ = told("train", path, *words, tmp_path / "model", "--force", "--sample-weight", "weight")
    wanted = fastsvm.LinearSVC(tol=1e-6).fit(X, KIND, sample_weight=weight)
    assert report["n_features"] == 4
    np.testing.assert_allclose(fastsvm.load(tmp_path / "model").coef_, wanted.coef_, rtol=1e-2, atol=1e-3)


# --- svmlight text whose indices begin at 0 or 1 ---------------------------------------------------------------

BITS = np.random.default_rng(0).integers(0, 2, (200, 6)).astype(float)
SIGN = np.where(BITS[:, 1] > 0, 1, -1)
BITS[150:, 0] = 0  # rows to predict have no index 0 that would show where they count from


@pytest.fixture
def texts(tmp_path):
    """Write samples of a fit and rows to predict, counted from 0 and from 1."""
    for first in (0, 1):
        for name, rows in (("train", slice(150)), ("test", slice(150, None))):
            path = str(tmp_path / f"{name}{first}")
            dump_svmlight_file(BITS[rows], SIGN[rows], path, zero_based=first == 0)
    return tmp_path


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", ["linear", "svc"])
def test_rows_to_predict_count_as_those_of_the_fit(first, kind, texts, told, refused):
    model = texts / "model"
    _, said = told("train", texts / f"train{first}", "-o", model, "--model", kind)
    assert ("No index is 0, so the first feature has the index 1" in said) == (first == 1)
    report, said = told("evaluate", model, texts / f"test{first}")
    assert report["accuracy"] == 1 and "note" not in said
    (texts / "one").write_text(f"1 {1 + first}:1 {4 + first}:1\n")
    assert told("evaluate", model, texts / "one")[0]["accuracy"] == 1
    told("convert", texts / f"test{first}", texts / "test.h5")
    if first == 0:
        assert "The first feature of the fit has the index 0, that of X was taken" in refused(
            "evaluate", model, texts / "test.h5"
        )
        _, said = told("convert", texts / "test0", texts / "test.h5", "--force", "--first-index", "0")
        assert "note" not in said
    assert told("evaluate", model, texts / "test.h5")[0]["accuracy"] == 1
    assert told("info", model)[0]["first_index"] == told("info", texts / "test.h5")[0]["first_index"] == first


def test_texts_that_count_otherwise_than_the_fit_are_refused_or_said(texts, told, refused):
    told("train", texts / "train1", "-o", texts / "model", "--model", "linear")
    assert "that of the fit was taken to have the index 1" in refused("evaluate", texts / "model", texts / "train0")
    _, said = told(
        "train", texts / "train1", "-o", texts / "model", "--model", "linear", "--first-index", "1", "--force"
    )
    assert "note" not in said
    assert told("evaluate", texts / "model", texts / "test0", "--first-index", "0")[0]["accuracy"] == 1
    assert "line 1 has the index 0, but --first-index 1" in refused(
        "evaluate", texts / "model", texts / "train0", "--first-index", "1"
    )


def test_a_job_says_what_its_texts_count_from(texts, told):
    """No row has the first feature, so that nothing in the texts shows it."""
    for name, rows in (("train0", slice(150)), ("test0", slice(150, None))):
        dump_svmlight_file(BITS[rows] * [0, 1, 1, 1, 1, 1], SIGN[rows], str(texts / name))
    job = texts / "job.toml"
    job.write_text('[data]\ntrain = "train0"\ntest = "test0"\nfirst_index = 0\n[model]\nkind = "linear"\n')
    report, said = told("run", job, "--folder", texts / "run")
    assert report["accuracy"] == 1 and report["n_features"] == 6 and "note" not in said


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("linear", ["--standardize"]),
        ("svc", ["--gamma", "0.5"]),
        ("svc", ["--gamma", "0.5", "--standardize"]),
        ("nystroem", ["--gamma", "0.5", "--landmarks", "uniform"]),
    ],
)
def test_more_features_than_those_of_the_fit_were_0_in_it(kind, words, texts, told):
    told("train", texts / "train1", "-o", texts / "model", "--model", kind, *words)
    told("convert", texts / "train1", texts / "train.h5", "--n-features", "9", "--first-index", "1")
    told("train", texts / "train.h5", "-o", texts / "wide", "--model", kind, *words)
    (texts / "rows").write_text("1 2:1 5:1 9:2\n-1 3:1\n1 1:1 8:-1\n")
    found = []
    for name in ("model", "wide"):
        _, said = told("predict", texts / name, texts / "rows", "-o", texts / f"{name}.csv")
        assert ("the model does not know the last 3 of 9 features" in said) == (name == "model")
        found.append(np.loadtxt(texts / f"{name}.csv", delimiter=",", skiprows=1))
    np.testing.assert_allclose(*found, rtol=2e-2, atol=2e-3)
    (texts / "few").write_text("1 2:1\n")
    told("convert", texts / "few", texts / "few.h5")  # one feature of two, and the model has six
    assert told("evaluate", texts / "model", texts / "few.h5")[0]["accuracy"] == 1
