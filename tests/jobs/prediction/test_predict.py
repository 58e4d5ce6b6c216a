"""Predictions of files: what is written, killed and stopped processes, progress, and bounded memory."""

import os
import signal
import time
import tracemalloc

import h5py
import numpy as np
import pytest
from predicted_files import BLOCK, N, assert_complete, safe_rows, write

import fastsvm
from fastsvm.cli import main
from fastsvm.jobs import predict as predict_module
from fastsvm.jobs.predict import PredictionFile, parts_of, predict
from fastsvm.progress_bar import progress_bar

DRIVER = f"""
import signal, sys
from fastsvm.cli import main
from fastsvm.jobs import predict as predict_module
from fastsvm.tuning import changed, tuned
within = tuned(changed({{"jobs": {{"block_rows": {BLOCK}, "log_s": 0.0, "save_share": float("inf")}}}}))
within.__enter__()
append = predict_module.PredictionFile.append
def waiting(self, *block):
    append(self, *block)
    if self.state.rows == int(sys.argv[1]):
        signal.pause()
predict_module.PredictionFile.append = waiting
sys.exit(main(sys.argv[2:]))
"""
posix = pytest.mark.skipif(os.name == "nt", reason="signals and locks are those of POSIX")


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


# --- killed and stopped -------------------------------------------------------------------------------------------


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@posix
def test_a_process_that_is_killed_and_one_that_is_stopped(made, whole, tmp_path, capsys, forks):
    """The first is killed at any moment before a block that it does not begin, the second is stopped after that."""
    output = tmp_path / "out.csv"
    process = forks.start(N // 2 - BLOCK, "predict", *made["words"], "-o", output, code=DRIVER)
    until(lambda: safe_rows(output) > 0)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL and not output.exists() and parts_of(output)[0].exists()
    process = forks.start(N // 2, "predict", *made["words"], "-o", output, code=DRIVER)
    until(lambda: safe_rows(output) == N // 2)
    assert main(["predict", *map(str, made["words"]), "-o", str(output)]) == 2
    assert "being written by another process" in capsys.readouterr().err
    process.terminate()
    _, err = process.communicate(timeout=60)
    resumed, *_, interrupted = err.splitlines()  # between them may be how far a slow machine is
    assert process.returncode == 143 and "resumed after" in resumed
    assert interrupted == "fastsvm: interrupted; the same command resumes where it stopped"
    report = predict(*made["words"], output)
    assert f"resumed after {N // 2:,} of {N:,} rows" in capsys.readouterr().err
    assert_complete(output, report, whole["words", "csv"])


@posix
@pytest.mark.parametrize(
    ("number", "code", "name", "ending"),
    [("SIGTERM", 143, "words", "h5"), ("SIGINT", 130, "numbers", "csv"), ("SIGHUP", 129, "numbers", "h5")],
)
def test_a_signal(number, code, name, ending, made, whole, tmp_path, monkeypatch, capsys, heard):
    output, append = tmp_path / f"out.{ending}", PredictionFile.append

    def signalled(self, *block):
        append(self, *block)
        if self.state.rows == 500:
            signal.raise_signal(getattr(signal, number))

    with monkeypatch.context() as patch:
        patch.setattr(PredictionFile, "append", signalled)
        assert main(["predict", *map(str, made[name]), "-o", str(output)]) == code
    assert capsys.readouterr().err == "fastsvm: interrupted; the same command resumes where it stopped\n"
    assert safe_rows(output) == 500
    report = predict(*made[name], output)
    assert "resumed after 500" in capsys.readouterr().err
    assert_complete(output, report, whole[name, ending])


# --- how it runs -----------------------------------------------------------------------------------------------


def test_each_block_moves_the_bar(made, tmp_path, monkeypatch):
    bars = []

    def bar(**more):
        bars.append(progress_bar(**more))
        return bars[-1]

    monkeypatch.setattr(predict_module, "progress_bar", bar)
    predict(*made["words"], tmp_path / "out.csv")
    assert [(one.n, one.total, one.desc) for one in bars] == [(N, N, "predict"), (N, N, "write")]


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_memory_does_not_grow_with_the_rows(ending, made, tmp_path, choose):
    """Labels of all rows alone would add 400 kB."""
    peaks = []
    for n in (5000, 5000, 55_000):  # once to warm up
        path = write(tmp_path / f"{n}.h5", X=np.ones((n, 5), np.uint8))
        choose(jobs={"block_rows": 2000})
        tracemalloc.start()
        predict(made["numbers"][0], path, tmp_path / f"out.{ending}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 200_000


def test_blocks_are_smaller_for_very_many_decision_functions(choose):
    class Model:
        intercept_ = np.zeros(4950)

    choose(jobs={"block_rows": 16_384})
    assert predict_module._block_rows(Model) == 1694
    Model.intercept_ = 0.5
    assert predict_module._block_rows(Model) == 16_384
