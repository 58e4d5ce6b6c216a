"""Files of predictions: interrupted at any write and resumed, and parts that must not be resumed."""

import errno
import os

import h5py
import numpy as np
import pytest
from predicted_files import N, alike, assert_complete, safe_rows

import fastsvm
from fastsvm.cli import main
from fastsvm.jobs import predict as predict_module
from fastsvm.jobs.predict import PredictionFile, parts_of, predict
from fastsvm.tuning import changed, tuned

# --- ended at every write --------------------------------------------------------------------------------------


class Killed(BaseException):
    """What no process says when it is killed."""


def killed(*_):
    raise Killed


def killed_at(monkeypatch, number, error=None):
    """Let the write of some number write half of its bytes and end the process, or raise an error."""
    calls, write_all = [], predict_module.write_all

    def cut(file, offset, data):
        calls.append(offset)
        if len(calls) == number:
            write_all(file, offset, data[: len(data) // 2])
            raise Killed() if error is None else error
        write_all(file, offset, data)

    monkeypatch.setattr(predict_module, "write_all", cut)
    if error is None:
        monkeypatch.setattr(PredictionFile, "_keep", lambda self: None)


def safe_now_and_then(monkeypatch):
    """Make rows safe after each third block, so that there are others behind them."""
    save = PredictionFile.save
    monkeypatch.setattr(PredictionFile, "save", lambda self: save(self) if self.state.rows % 300 in (0, 100) else 0)


@pytest.fixture
def interrupted(made, tmp_path, monkeypatch):
    """Return a function that begins the predictions of some name, and an output that was left at some write."""

    def begin(name, ending, number=9):
        output = tmp_path / f"out.{ending}"
        with pytest.MonkeyPatch.context() as patch, tuned(changed({"jobs": {"log_s": 0.0, "save_share": np.inf}})):
            safe_now_and_then(patch)
            killed_at(patch, number)
            with pytest.raises(Killed):
                predict(*made[name], output)
        return output

    return begin


@pytest.mark.parametrize(
    ("number", "name", "ending"),
    [(number, *file)
     for i, number in enumerate([1, 3, 6, 20])
     for j, file in enumerate([("words", "csv"), ("words", "h5"), ("pair", "h5"), ("numbers", "csv")])
     if (i + j) % 2 == 0],
)  # fmt: skip
def test_an_interrupted_file_is_resumed(number, name, ending, made, whole, interrupted, capsys):
    output = interrupted(name, ending, number)
    safe = safe_rows(output)
    report = predict(*made[name], output)
    assert ("resumed after" in capsys.readouterr().err) == (safe > 0)
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
    assert words in err and "Starting again" in err and "resumed after" not in err and err.count("\n") == 1
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


@pytest.mark.parametrize(
    ("ending", "of_rows", "damage"),
    [(("csv", "h5")[(i + j) % 2], of_rows, damage)
     for i, of_rows in enumerate([True, False]) for j, damage in enumerate([cut, emptied, flipped, flipped_early])],
)  # fmt: skip
def test_a_damaged_part(ending, of_rows, damage, made, whole, interrupted, capsys):
    output = interrupted("words", ending, 16)
    damage(parts_of(output)[0 if of_rows else 1])
    report = begun_anew(output, made["words"], "damaged", capsys)
    assert_complete(output, report, whole["words", ending])


def test_a_file_of_somebody_else_is_not_overwritten(made, tmp_path, capsys):
    part = tmp_path / "out.csv.part"
    part.write_text("something else")
    assert main(["predict", *map(str, made["words"]), "-o", str(tmp_path / "out.csv")]) == 2
    assert "is not a part of predictions" in capsys.readouterr().err
    assert part.read_text() == "something else" and os.listdir(tmp_path) == [part.name]


def test_data_that_change_meanwhile(made, tmp_path, monkeypatch, capsys):
    data, append = tmp_path / "data.h5", PredictionFile.append
    data.write_bytes(made["words"][1].read_bytes())

    def touched(self, *block):
        append(self, *block)
        os.utime(data, ns=(0, self.state.rows))

    monkeypatch.setattr(PredictionFile, "append", touched)
    assert main(["predict", str(made["words"][0]), str(data), "-o", str(tmp_path / "out.csv")]) == 2
    assert "changed during the prediction" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["data.h5"]


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_a_full_disk(ending, made, whole, tmp_path, monkeypatch, capsys):
    output = tmp_path / f"out.{ending}"
    with monkeypatch.context() as patch:
        killed_at(patch, 9, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        assert main(["predict", *map(str, made["words"]), "-o", str(output)]) == 1
    err = capsys.readouterr().err
    assert "No space left" in err and "the same command resumes" in err and err.count("\n") == 1
    assert safe_rows(output) == 800
    report = predict(*made["words"], output)
    assert "resumed after" in capsys.readouterr().err
    assert_complete(output, report, whole["words", ending])


def test_rows_reach_the_disk_before_the_state_counts_them(made, tmp_path, monkeypatch, choose):
    """After a power failure the state may lag behind the rows, but never be ahead of them."""
    events, fsync, write_state = [], os.fsync, PredictionFile._write_state

    def synced(number):
        events.append(("synced", os.fstat(number).st_size, os.fstat(number).st_ino))
        fsync(number)

    def counted(self):
        part = parts_of(self.output)[0].stat()
        events.append(("counted", part.st_size, part.st_ino))
        write_state(self)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(PredictionFile, "_write_state", counted)
    choose(jobs={"log_s": 0.0, "save_share": np.inf})
    predict(*made["numbers"], tmp_path / "out.csv")
    at = [k for k, event in enumerate(events) if event[0] == "counted"]
    assert len(at) > 10
    assert all(events[k - 1] == ("synced", *events[k][1:]) for k in at)
