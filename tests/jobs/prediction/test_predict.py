"""Predictions of files: killed at any moment and gone on with, refused what is not theirs, in bounded memory."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc

import h5py
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score

import fastsvm
from fastsvm.cli import main
from fastsvm.jobs.prediction import predict as predict_module
from fastsvm.jobs.prediction import resumable_file
from fastsvm.jobs.prediction.predict import evaluate, predict
from fastsvm.jobs.prediction.resumable_file import PredictionFile, parts_of

N, BLOCK = 4000, 100
WORDS = np.array(["ant", "bumblebee", "Käfer"])
DRIVER = f"""
import sys, time
from fastsvm.cli import main
from fastsvm.jobs.prediction import predict, resumable_file
predict._ROWS, resumable_file._SECONDS, resumable_file._MOST_SHARE = {BLOCK}, 0.0, 1.0
append = resumable_file.PredictionFile.append
def slow(self, *block):
    time.sleep(0.02)
    append(self, *block)
resumable_file.PredictionFile.append = slow
sys.exit(main(sys.argv[1:]))
"""
posix = pytest.mark.skipif(os.name == "nt", reason="signals and locks are those of POSIX")


def write(path, **columns):
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[name] = values
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return (model, data) by name: classes that are words or numbers, a regression, a file without y."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, N)
    X = (rng.normal(size=(N, 5)) + 1.5 * np.eye(5)[kind]).astype(np.float32)
    target = X @ np.arange(1.0, 6.0) + rng.normal(size=N)
    words = np.array(["ant", "bumblebee", "Käfer"], object)[kind]
    models = {
        "words": fastsvm.LinearSVC().fit(X[:500], words[:500].astype(str)),
        "pair": fastsvm.SVC().fit(X[:200], kind[:200] > 0),
        "numbers": fastsvm.LinearSVR().fit(X[:500], target[:500]),
    }
    for name, model in models.items():
        fastsvm.save(model, folder / f"{name}.model")
    write(folder / "words.h5", X=X, y=words)
    write(folder / "pair.h5", X=X, y=kind > 0)
    write(folder / "numbers.h5", X=X, y=target)
    write(folder / "without y.h5", X=X)
    found = {name: (folder / f"{name}.model", folder / f"{name}.h5") for name in models}
    return found | {"without y": (folder / "words.model", folder / "without y.h5")}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(predict_module, "_ROWS", BLOCK)


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory):
    """Return bytes and report of predictions that nothing interrupted, by name and ending."""
    folder, found = tmp_path_factory.mktemp("whole"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict_module, "_ROWS", BLOCK)
        for name, files in made.items():
            for ending in ("csv", "h5"):
                path = folder / f"{name}.{ending}"
                report = predict(*files, path)
                found[name, ending] = path.read_bytes(), alike(report)
    return found


def alike(report):
    """Return the part of a report that does not depend on where and how fast."""
    return report._replace(output="", seconds=0.0)


def assert_complete(output, report, wanted):
    """Raise if an output is not what an uninterrupted run gives, or something is left beside it."""
    assert output.read_bytes() == wanted[0] and alike(report) == wanted[1]
    assert not [path for path in parts_of(output) if path.exists()]
    assert os.listdir(output.parent) == [output.name]


# --- what is written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["words", "pair", "numbers", "without y"])
def test_both_formats_hold_what_the_model_says(name, made, whole, tmp_path):
    model = fastsvm.load(made[name][0])
    with h5py.File(made[name][1]) as file:
        X = file["X"][:]
    (tmp_path / "out.h5").write_bytes(whole[name, "h5"][0])
    with h5py.File(tmp_path / "out.h5") as file:
        labels, decisions = file["prediction"], file["decision"][:]
        labels = labels.asstr()[:] if h5py.check_string_dtype(labels.dtype) else labels[:]
    np.testing.assert_array_equal(labels, model.predict(X))
    wanted = model.predict(X) if name == "numbers" else model.decision_function(X)
    np.testing.assert_allclose(decisions, wanted, rtol=1e-5, atol=1e-6)
    lines = whole[name, "csv"][0].decode().split("\r\n")
    assert lines[-1] == "" and len(lines) == N + 2
    rows = [line.split(",") for line in lines[1:-1]]
    assert [row[0] for row in rows] == [str(label) for label in labels.tolist()]
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], float), decisions.reshape(N, -1))


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
        with pytest.raises(ValueError, match="does not hold finite numbers"):
            evaluate(model, write(tmp_path / "c.h5", X=X, y=y))


def test_a_file_without_labels_is_predicted_and_not_evaluated(made, whole):
    report = whole["without y", "csv"][1]
    assert report.n_samples == N and report.accuracy is None and report.per_class == {} and report.r2 is None
    with pytest.raises(ValueError, match="no dataset 'y'"):
        evaluate(*made["without y"])


# --- killed for good -------------------------------------------------------------------------------------------


def started(*words):
    command = [sys.executable, "-c", DRIVER, *map(str, words)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def safe_rows(output):
    journal = parts_of(output)[1]
    return json.loads(journal.read_text())["rows"] if journal.exists() else 0


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@posix
@pytest.mark.parametrize(("name", "ending"), [("words", "csv"), ("numbers", "h5")])
def test_a_process_that_is_killed_again_and_again(name, ending, made, whole, tmp_path, capsys):
    output = tmp_path / f"out.{ending}"
    for rows in (300, 2500):
        process = started("predict", *made[name], "-o", output)
        until(lambda rows=rows: safe_rows(output) >= rows)
        process.kill()
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL and ("going on after" in err) == (rows > 300)
        assert not output.exists() and parts_of(output)[0].exists()
    reached = safe_rows(output)
    assert 2500 <= reached < N
    report = predict(*made[name], output)
    assert f"going on after {reached:,} of {N:,} rows" in capsys.readouterr().err
    assert_complete(output, report, whole[name, ending])


@posix
@pytest.mark.parametrize(
    ("number", "code", "name", "ending"),
    [("SIGTERM", 143, "words", "h5"), ("SIGINT", 130, "numbers", "csv"), ("SIGHUP", 129, "numbers", "h5")],
)
def test_a_signal_and_the_lock(number, code, name, ending, made, whole, tmp_path, capsys, heard):
    output = tmp_path / f"out.{ending}"
    process = started("predict", *made[name], "-o", output)
    until(lambda: safe_rows(output) >= 500)
    assert main(["predict", *map(str, made[name]), "-o", str(output)]) == 2
    assert "being written by another process" in capsys.readouterr().err
    begin = time.monotonic()
    process.send_signal(getattr(signal, number))
    _, err = process.communicate(timeout=60)
    assert process.returncode == code and time.monotonic() - begin < 4
    assert err == "fastsvm: interrupted; the same command goes on where it stopped\n"
    assert 500 <= safe_rows(output) < N
    report = predict(*made[name], output)
    assert "going on after" in capsys.readouterr().err
    assert_complete(output, report, whole[name, ending])


# --- ended at every write --------------------------------------------------------------------------------------


class Killed(BaseException):
    """What no process says when it is killed."""


def killed(self):
    raise Killed


def killed_at(monkeypatch, number, error=None):
    """Let the write of some number write half of its bytes and end the process, or raise an error."""
    calls, write_all = [], resumable_file.write_all

    def cut(file, offset, data):
        calls.append(offset)
        if len(calls) == number:
            write_all(file, offset, data[: len(data) // 2])
            raise Killed() if error is None else error
        write_all(file, offset, data)

    monkeypatch.setattr(resumable_file, "write_all", cut)
    if error is None:
        monkeypatch.setattr(PredictionFile, "_keep", lambda self: None)


def safe_now_and_then(monkeypatch):
    """Make rows safe after each third block, so that there are others behind them."""
    save = PredictionFile.save
    monkeypatch.setattr(resumable_file, "_SECONDS", 0.0)
    monkeypatch.setattr(resumable_file, "_MOST_SHARE", np.inf)
    monkeypatch.setattr(PredictionFile, "save", lambda self: save(self) if self.reached.rows % 300 in (0, 100) else 0)


@pytest.fixture
def interrupted(made, tmp_path, monkeypatch):
    """Return a function that begins the predictions of some name, and an output that was left at some write."""

    def begin(name, ending, number=9):
        output = tmp_path / f"out.{ending}"
        with pytest.MonkeyPatch.context() as patch:
            safe_now_and_then(patch)
            killed_at(patch, number)
            with pytest.raises(Killed):
                predict(*made[name], output)
        return output

    return begin


@pytest.mark.parametrize("number", [1, 3, 6, 40])
@pytest.mark.parametrize(("name", "ending"), [("words", "csv"), ("words", "h5"), ("pair", "h5"), ("numbers", "csv")])
def test_what_was_cut_short_is_gone_on_with(number, name, ending, made, whole, interrupted, capsys):
    output = interrupted(name, ending, number)
    safe = safe_rows(output)
    report = predict(*made[name], output)
    assert ("going on" in capsys.readouterr().err) == (safe > 0)
    assert_complete(output, report, whole[name, ending])


def test_one_that_ends_before_the_part_has_its_name(made, whole, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr(PredictionFile, "_finish", killed)
        with pytest.raises(Killed):
            predict(*made["words"], output)
    assert safe_rows(output) == N
    assert_complete(output, predict(*made["words"], output), whole["words", "csv"])


# --- what is not used ------------------------------------------------------------------------------------------


def begun_anew(output, files, words, capsys):
    report = predict(*files, output)
    err = capsys.readouterr().err
    assert words in err and "Beginning anew" in err and "going on" not in err and err.count("\n") == 1
    return report


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_a_part_of_another_model_or_of_other_data(ending, made, interrupted, tmp_path_factory, capsys):
    folder = tmp_path_factory.mktemp("others")
    model, data = made["words"]
    other = folder / "other.model"
    with fastsvm.open_hdf5(data) as rows:
        fastsvm.save(fastsvm.LinearSVC(C=1e-3).fit(rows.X.read(0, 500).values, rows.y[:500]), other)
    changed = folder / "changed.h5"
    changed.write_bytes(data.read_bytes())
    with h5py.File(changed, "r+") as file:
        file["X"][N // 2] = 7.0
    for files, words in (((other, data), "the model changed"), ((model, changed), "the data file changed")):
        output = interrupted("words", ending)
        report = begun_anew(output, files, words, capsys)
        fresh = folder / f"fresh.{ending}"
        assert alike(predict(*files, fresh)) == alike(report)
        assert output.read_bytes() == fresh.read_bytes()


def cut(path):
    os.truncate(path, path.stat().st_size // 3)


def emptied(path):
    os.truncate(path, 0)


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def flipped_early(path):
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, emptied, flipped, flipped_early])
@pytest.mark.parametrize("of_rows", [True, False])
@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_a_damaged_part(ending, of_rows, damage, made, whole, interrupted, capsys):
    number = {"csv": 31, "h5": 79}[ending]  # so that a third of the file holds rows
    output = interrupted("words", ending, number)
    damage(parts_of(output)[0 if of_rows else 1])
    report = begun_anew(output, made["words"], "damaged", capsys)
    assert_complete(output, report, whole["words", ending])


def test_a_file_of_somebody_else_is_not_overwritten(made, tmp_path, capsys):
    part = tmp_path / "out.csv.part"
    part.write_text("something else")
    assert main(["predict", *map(str, made["words"]), "-o", str(tmp_path / "out.csv")]) == 2
    assert "exists and is something else" in capsys.readouterr().err
    assert part.read_text() == "something else" and os.listdir(tmp_path) == [part.name]


def test_data_that_change_meanwhile(made, tmp_path, monkeypatch, capsys):
    data, append = tmp_path / "data.h5", PredictionFile.append
    data.write_bytes(made["words"][1].read_bytes())

    def touched(self, *block):
        append(self, *block)
        os.utime(data, ns=(0, self.reached.rows))

    monkeypatch.setattr(PredictionFile, "append", touched)
    assert main(["predict", str(made["words"][0]), str(data), "-o", str(tmp_path / "out.csv")]) == 2
    assert "changed while it was predicted" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["data.h5"]


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_a_full_disk(ending, made, whole, tmp_path, monkeypatch, capsys):
    output = tmp_path / f"out.{ending}"
    with monkeypatch.context() as patch:
        killed_at(patch, 9, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        assert main(["predict", *map(str, made["words"]), "-o", str(output)]) == 1
    err = capsys.readouterr().err
    assert "No space left" in err and "the same command goes on" in err and err.count("\n") == 1
    assert safe_rows(output) == {"csv": 800, "h5": 400}[ending]
    report = predict(*made["words"], output)
    assert "going on after" in capsys.readouterr().err
    assert_complete(output, report, whole["words", ending])


# --- how it runs -----------------------------------------------------------------------------------------------


def test_a_line_now_and_then_where_there_is_no_terminal(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(predict_module, "_SAY_SECONDS", 0.0)
    predict(*made["words"], tmp_path / "out.csv")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == N // BLOCK and lines[0] == "fastsvm: predict: 100 of 4,000 rows (2%)"


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_memory_does_not_grow_with_the_rows(ending, made, tmp_path):
    """Labels of all rows alone would add 800 kB."""
    peaks = []
    for n in (10_000, 10_000, 110_000):  # once to warm up
        path = write(tmp_path / f"{n}.h5", X=np.ones((n, 5), np.uint8))
        predict_module._ROWS = 2000
        tracemalloc.start()
        predict(made["numbers"][0], path, tmp_path / f"out.{ending}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 200_000


def test_blocks_are_smaller_for_very_many_decision_functions(monkeypatch):
    class Model:
        intercept_ = np.zeros(4950)

    monkeypatch.setattr(predict_module, "_ROWS", 16_384)
    assert predict_module._block_rows(Model) == 1694
    Model.intercept_ = 0.5
    assert predict_module._block_rows(Model) == 16_384
