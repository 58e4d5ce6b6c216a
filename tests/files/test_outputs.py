"""Paths of commands: impossible ones are refused before the work, and signals leave no temporary files."""

import contextlib
import os
import signal
import socket
import time

import h5py
import numpy as np
import pytest

import fastsvm
from fastsvm.cli import main
from fastsvm.files.atomic_file import is_taken
from fastsvm.jobs.signals import Stopped, StopSignals, ended_by_signals

posix = pytest.mark.skipif(os.name == "nt", reason="pipes and signals are those of POSIX")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    return path


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1,2,0\n3,4,1\n")
    return path


@pytest.fixture
def model(tmp_path):
    """Return the file of a model that needs no compilation."""
    found = fastsvm.LinearSVC()
    found.coef_, found.intercept_ = np.ones((1, 3)), np.zeros(1)
    found.classes_, found.n_features_in_ = np.arange(2), 3
    fastsvm.save(found, tmp_path / "model.h5")
    return tmp_path / "model.h5"


def refused(capsys, *words):
    """Return the error message of a command that refuses its arguments."""
    code = main(list(map(str, words)))
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1, err
    return err


@contextlib.contextmanager
def unusual(path, kind):
    """Make a pipe or a socket."""
    if kind == "pipe":
        os.mkfifo(path)
        yield
    else:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(path))
            yield


@posix
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_pipes_are_neither_read_nor_replaced(kind, data, rows, model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    (tmp_path / "job.toml").write_text('[data]\ntrain = "odd"\n[model]\nkind = "svc"\n')
    with unusual("odd", kind):
        commands = [
            ["convert", "odd", "out.h5"],
            ["convert", "odd", "out.h5", "--format", "csv"],
            ["convert", rows, "odd"],
            ["train", "odd"],
            ["train", "odd", "--folder", "run"],
            ["train", data, "-o", "odd"],
            ["run", "job.toml", "--folder", "run"],
            ["predict", model, "odd", "-o", "out.h5"],
            ["predict", model, data, "-o", "odd"],
            ["evaluate", model, "odd"],
            ["info", "odd"],
        ]
        for words in commands:
            assert "is a pipe, a socket or a device" in refused(capsys, *words), words
        for words in (["predict", "odd", data, "-o", "out.h5"], ["evaluate", "odd", data]):
            assert "odd" in refused(capsys, *words)
        assert not os.path.isfile("odd")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.h5", "job.toml", "model.h5", "odd", "rows.csv"]


@pytest.mark.parametrize("name", ["x" * 253 + "h5", "x" * 248 + ".csv"])
def test_outputs_of_long_names(name, data, rows, model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    assert main(["convert", str(rows), str(out / name)]) == 0
    assert main(["predict", str(model), str(data), "-o", str(out / name), "--force"]) == 0
    fastsvm.save(fastsvm.load(model), out / name)
    assert os.listdir(out) == [name]
    np.testing.assert_array_equal(fastsvm.load(out / name).coef_, np.ones((1, 3)))


@pytest.mark.parametrize("words", [["train", "data"], ["predict", "model", "data"], ["convert", "rows"]])
def test_outputs_are_refused_before_the_work(words, data, rows, model, tmp_path, capsys, monkeypatch):
    def worked(*_, **__):
        raise AssertionError("it worked")

    monkeypatch.setattr(fastsvm.SVC, "fit", worked)
    monkeypatch.setattr("fastsvm.jobs.predict._score", worked)
    monkeypatch.setattr("fastsvm.formats.conversion._write", worked)
    words = [words[0], *({"data": data, "model": model, "rows": rows}[word] for word in words[1:])]
    words += ["-o"] if words[0] != "convert" else []
    assert "is too long" in refused(capsys, *words, tmp_path / ("x" * 256))
    assert "is a folder" in refused(capsys, *words, tmp_path)
    assert "There is no folder" in refused(capsys, *words, tmp_path / "nowhere" / "out")
    assert "read by this command" in refused(capsys, *words, words[1])
    with monkeypatch.context() as patch:

        def touch(path, **_):
            raise OSError(30, "Read-only file system")

        patch.setattr("pathlib.Path.touch", touch)
        assert "cannot be written to: Read-only file system" in refused(capsys, *words, tmp_path / "out")


def test_labels_are_not_replaced_by_a_conversion(tmp_path, capsys):
    np.save(tmp_path / "X.npy", np.ones((3, 2)))
    np.save(tmp_path / "y.npy", np.arange(3))
    words = "convert", tmp_path / "X.npy", tmp_path / "y.npy", "--label", tmp_path / "y.npy"
    assert "read by this command" in refused(capsys, *words)


# --- signals ---------------------------------------------------------------------------------------------


def is_working(folder):
    """Return whether a process has locked its folder of temporary files in a folder."""
    for room in folder.glob("*.part/"):
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            number = os.open(room, os.O_RDONLY)
            try:
                return is_taken(number)
            finally:
                os.close(number)
    return False


@posix
def test_a_signal_ends_a_conversion_and_leaves_nothing(tmp_path, forks):
    processes, codes = {}, {"SIGTERM": 143, "SIGINT": 130, "SIGHUP": 129}
    (tmp_path / "rows.csv").write_text(("1," * 40 + "0\n" + "2," * 40 + "1\n") * 200_000)  # seconds of work
    for name in codes:
        out = tmp_path / name
        out.mkdir()
        processes[name] = forks.start("convert", tmp_path / "rows.csv", out / "rows.h5")
    for name, process in processes.items():
        end = time.monotonic() + 60
        while process.poll() is None and not is_working(tmp_path / name):
            assert time.monotonic() < end
            time.sleep(0.005)
        process.send_signal(getattr(signal, name))
    for name, process in processes.items():
        _, err = process.communicate(timeout=60)
        assert process.returncode == codes[name] and err == "fastsvm: interrupted\n"
        assert os.listdir(tmp_path / name) == []


@posix
@pytest.mark.parametrize("listening", [lambda: StopSignals().listening(), ended_by_signals])
def test_who_was_told_not_to_hear_of_the_terminal_does_not(listening):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signals_end_what_cannot_be_gone_on_with_at_once(name, heard):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as caught, ended_by_signals():
        os.kill(os.getpid(), number)
        time.sleep(10)
    assert caught.value.number == number and signal.getsignal(number) is before
