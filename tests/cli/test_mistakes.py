"""Mistakes on the command line, in job files and in data: each is told before work is lost, and names its place."""

import os
import re
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
from forked import COMMAND

import fastsvm.jobs.demo
from fastsvm.cli import main
from fastsvm.formats import FORMATS, convert
from fastsvm.jobs.training.train import split

N = 1000
X = np.random.default_rng(0).normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(int)
WORDS = np.array(["no", "yes"], object)[Y]


def written(path, **columns):
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[name] = values
    return path


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "data.h5", X=X, y=Y)


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns its exit code and standard error."""

    def do(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr().err

    return do


def test_the_demo_replaces_no_files_of_others(tmp_path, run, monkeypatch):
    monkeypatch.setattr(fastsvm.jobs.demo, "demo", partial(fastsvm.jobs.demo.demo, n_training=300))
    (tmp_path / "train.h5").write_text("mine")
    (tmp_path / "file").write_text("mine")
    code, told = run("demo", "--folder", tmp_path)
    assert code == 2 and "train.h5 exists, and the demo would replace it" in told
    assert (tmp_path / "train.h5").read_text() == "mine" and not (tmp_path / "test.h5").exists()
    code, told = run("demo", "--folder", tmp_path / "file")
    assert code == 2 and "is a file; name a folder" in told
    assert [run("demo", "--folder", tmp_path / "own")[0] for _ in range(2)] == [0, 0]


def test_a_model_that_is_not_saved_is_told(data, tmp_path, run):
    assert "the model is not saved" in run("train", data, "--model", "sgd")[1]
    assert "not saved" not in run("train", data, "--model", "sgd", "-o", tmp_path / "model")[1]


def test_a_seed_is_named(data, run):
    code, told = run("train", data, "--seed", -1)
    assert code == 2 and "seed must be at least 0" in told


@pytest.mark.parametrize("held", [True, False])
def test_a_bad_value_is_named_by_its_row_in_the_file(held, data, tmp_path, run, choose):
    """It is among the rows of the fit, or among those that are held out, and far from the first block."""
    choose(jobs={"block_rows": 100})
    model = tmp_path / "model"
    assert run("train", data, "-o", model, "--model", "sgd")[0] == 0
    bad = int(split(N, 0.5, 0)[held][-1])
    with h5py.File(data, "r+") as file:
        file["X"][bad, 1] = np.nan
    words = f"row {bad}, column 1 of {data}"
    code, told = run("predict", model, data, "-o", tmp_path / "out.csv")
    assert code == 2 and words in told
    code, told = run("train", data, "--holdout", 0.5, "--model", "linear")
    assert code == 2 and words in told
    job = tmp_path / "job.toml"
    job.write_text(f'[data]\ntrain = "{data}"\nholdout = 0.5\n[model]\nkind = "linear"\n[search]\nC = [0.1, 1]\n')
    code, told = run("run", job, "--folder", tmp_path / "run")
    assert code == 2 and words in told and "goes on without" not in told


LABELS = {
    "of another kind": (WORDS, "No label in .*test.h5 is a class of the model"),
    "of other classes": (Y + 5, "No label in .*test.h5 is a class of the model"),
    "without a number": (np.where(Y, np.nan, 1.0), "test.h5 contain NaN or infinity"),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_test_that_cannot_be_compared_is_refused_before_the_fit(name, data, tmp_path, run):
    labels, words = LABELS[name]
    test = written(tmp_path / "test.h5", X=X, y=labels)
    job = tmp_path / "job.toml"
    job.write_text(f'[data]\ntrain = "{data}"\ntest = "{test}"\n[model]\nkind = "sgd"\n')
    code, told = run("run", job, "--folder", tmp_path / "run")
    assert code == 2 and re.search(words, told)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["sgd", "sgd-regressor"])
def test_labels_without_a_number_keep_nobody_from_predicting(kind, data, tmp_path, run):
    test = written(tmp_path / "test.h5", X=X, y=np.full(N, np.nan))
    assert run("train", data, "-o", tmp_path / "model", "--model", kind)[0] == 0
    code, told = run("predict", tmp_path / "model", test, "-o", tmp_path / "out.csv")
    assert code == 0 and "The labels in" in told and "Nothing is compared" in told
    assert len((tmp_path / "out.csv").read_text().splitlines()) == N + 1
    code, told = run("evaluate", tmp_path / "model", test)
    assert code == 2 and "The labels in" in told


KEYS = {
    'label = "kind"': "has no part 'kind'; it holds X",
    "label = 0": "has no part '0'",
    'format = "csv"': "converted take format.",
    'id = "name"': "converted take id.",
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_that_do_not_apply_to_hdf5_are_refused(key, data, tmp_path, run):
    job = tmp_path / "job.toml"
    job.write_text(f'[data]\ntrain = "{data}"\n{key}\n[model]\nkind = "sgd"\n')
    code, told = run("run", job, "--folder", tmp_path / "run")
    assert code == 2 and KEYS[key] in told and not (tmp_path / "run").exists()
    code, told = run("train", data, "--folder", tmp_path / "run", "--label", "kind")
    assert code == 2 and "has no part 'kind'" in told and not (tmp_path / "run").exists()


def test_a_job_file_of_a_windows_editor(data, tmp_path, run):
    job = tmp_path / "job.toml"
    job.write_text(f'[data]\ntrain = "{data}"\n[model]\nkind = "sgd"\n', encoding="utf-8-sig")
    assert run("run", job, "--folder", tmp_path / "run")[0] == 0


@pytest.mark.parametrize("kind", ["svc", "linear"])
def test_a_scoring_that_the_model_cannot_have(kind, data, tmp_path, run):
    job = tmp_path / "job.toml"
    job.write_text(
        f'[data]\ntrain = "{data}"\n[model]\nkind = "{kind}"\n[search]\nC = [0.1, 1]\nscoring = "neg_log_loss"\n'
    )
    code, told = run("run", job, "--folder", tmp_path / "run")
    assert code == 2 and "scoring='neg_log_loss' cannot be computed" in told and "predict_proba" in told
    assert not (tmp_path / "run").exists()


def test_an_index_that_is_too_large_is_told(tmp_path, run):
    text = tmp_path / "rows.txt"
    text.write_text("1 1:0.5 2:1\n0 2:1\n1 1:1\n0 1:0.1 2000000000:1\n")
    code, told = run("train", text, "-o", tmp_path / "model", "--model", "linear", "--memory", "1GB")
    assert code == 2 and "X has 2,000,000,000 features" in told and "take 48 GB" in told and "raise memory" in told


def test_a_number_of_features_is_refused_for_tables(tmp_path, run):
    table, output = tmp_path / "table.csv", tmp_path / "out.h5"
    table.write_text("a,b,label\n1,2,0\n3,4,1\n")
    code, told = run("convert", table, output, "--n-features", 9)
    assert code == 2 and "n_features does not apply to csv, only to svmlight" in told and not output.exists()


def test_features_that_the_model_does_not_have_are_told(data, tmp_path, run):
    assert run("train", data, "-o", tmp_path / "model", "--model", "sgd", "--memory", "1GB")[0] == 0
    (tmp_path / "more.txt").write_text("1 1:0.5 2:1 3:1 9:1\n")
    code, told = run("predict", tmp_path / "model", tmp_path / "more.txt", "-o", tmp_path / "out.csv")
    assert code == 0 and "the model does not know the last 6 of 9 features" in told
    (tmp_path / "huge.txt").write_text("1 1:0.5 2147483647:1\n")
    code, told = run("predict", tmp_path / "model", tmp_path / "huge.txt", "-o", tmp_path / "more.csv")
    assert code == 2 and "A model of so many takes" in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_report_that_cannot_be_written_is_told(data, forks):
    code = f"import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n{COMMAND}"
    process = forks.start("info", data, code=code)
    _, told = process.communicate()
    assert process.returncode == 1 and told.count("\n") == 1 and "No space left on device" in told


@pytest.mark.parametrize("words", [["train", "--help"], ["info"]], ids=str)
def test_letters_that_the_output_lacks_are_replaced(words, tmp_path, forks):
    path = written(tmp_path / "data.h5", X=X, y=np.array(["nö", "γ"], object)[Y])
    code = f"import sys\nsys.stdout.reconfigure(encoding='ascii', errors='strict')\n{COMMAND}"
    process = forks.start(*words, *([path] if words == ["info"] else []), code=code)
    out, told = process.communicate()
    assert process.returncode == 0 and told == "" and ("n\\xf6" in out or words != ["info"])


def test_a_table_whose_columns_share_a_name_is_predicted_by_their_order(tmp_path, run):
    table = tmp_path / "table.csv"
    table.write_text("a,b,a,label\n" + "".join(f"{a},{b},{c},{y}\n" for (a, b, c), y in zip(X, Y, strict=True)))
    code, told = run("train", table, "-o", tmp_path / "model", "--model", "sgd")
    assert code == 0 and "Several features are named 'a'" in told
    assert run("predict", tmp_path / "model", table, "-o", tmp_path / "out.csv")[0] == 0


def test_progress_without_standard_error(data, tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("a,label\n1,0\n2,1\n")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", None)
        fastsvm.SVC(verbose=True).fit(X, Y)
        fastsvm.SVCSearch(fastsvm.SVC(), {"C": [1.0]}, cv=2, verbose=True).fit(X[:60], Y[:60])
        convert(tmp_path / "table.csv", tmp_path / "table.h5", progress=True)
        assert main(["train", str(data), "--model", "sgd"]) == 0


def test_weights_that_are_no_numbers_are_named(tmp_path, run):
    path = written(tmp_path / "data.h5", X=X, y=Y, sample_weight=WORDS)
    code, told = run("train", path, "--model", "sgd")
    assert code == 2 and f"sample_weight of {path} must hold numbers" in told


PATHS = [
    "compress {} data.h5 -o out",
    "compress model {} -o out",
    "compress model data.h5 -o {}",
    "convert {} out.h5",
    "convert data.csv {}",
    "convert-model {} out",
    "convert-model model {}",
    "demo --folder {}",
    "evaluate {} data.h5",
    "evaluate model {}",
    "info {}",
    "predict {} data.h5 -o out.csv",
    "predict model {} -o out.csv",
    "predict model data.h5 -o {}",
    "resume {}",
    "run {} --folder run",
    "run job.toml --folder {}",
    "status {}",
    "train {}",
    "train data.h5 -o {}",
    "train data.h5 --folder {}",
]


@pytest.mark.skipif(os.name == "nt", reason="links need privileges there, and other paths are too long")
@pytest.mark.parametrize("words", PATHS)
def test_paths_that_cannot_be_used_are_told_in_a_line(words, data, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data.with_suffix(".csv").write_text("a,b\n1,2\n")
    (tmp_path / "model").write_text("none")
    (tmp_path / "job.toml").write_text("[data]\ntrain = 'data.h5'\n")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.iterdir())
    for path in ("x" * 256, "x" * 256 + "/y", "x/" * 3000, "dangling", "loop", "data.h5/x", "loop/x"):
        code, told = run(*(word.format(path) for word in words.split()))
        lines = [line for line in told.splitlines() if "note:" not in line]
        assert code == 2 and len(lines) == 1 and "Errno" not in told and len(told) < 10_000, (path[:20], told)
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "dangling").is_symlink()


def test_a_folder_to_which_one_may_not_write_is_told(data, tmp_path, run, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied", str(tmp_path / "run"))

    monkeypatch.setattr(Path, "mkdir", denied)
    assert run("train", data, "--folder", tmp_path / "run") == (
        2,
        f"fastsvm: {tmp_path / 'run'} cannot be used: permission is denied.\n",
    )


def test_real_numbers_as_labels_name_a_regressor(tmp_path, capsys):
    (tmp_path / "reals.csv").write_text("1.5,2\n2.5,1\n0.3,2\n4.1,1\n")
    assert main(["train", str(tmp_path / "reals.csv"), "--label", "0"]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("fastsvm: The labels are real numbers, such as ") and "--model svr" in told
    assert "by --label." in told


def test_an_unknown_format_is_answered_by_a_line_for_each(tmp_path, capsys):
    (tmp_path / "words.txt").write_text("hello world\nfoo\n")
    assert main(["train", str(tmp_path / "words.txt")]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first.endswith("is not recognised; set --format to one of:")
    assert [line.split(":")[0] for line in lines] == [f"  {name}" for name in FORMATS]
