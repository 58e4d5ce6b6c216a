"""Compilation before the first fit."""

import contextlib
import os
import pty
from pathlib import Path

import pytest

from fastsvm._compiled.processor import JIT_DISABLED
from fastsvm.cli import main
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.jobs.warmup import warm_up

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")

COMPILES = """
import numpy as np
from fastsvm.linalg.dense_products import mirror, scale_rows
mirror(np.ones((3, 3)), 3)
scale_rows(np.ones((3, 2)), np.ones(2), np.ones(2), np.empty((3, 2)))
"""


def test_what_was_compiled_is_not_compiled_again(capsys):
    warm_up(["sgd"])
    report = warm_up(["sgd"], n_jobs=1)
    assert report["models"] == ["sgd"] and report["n_compiled"] == 0
    assert Path(report["cache"]).is_dir()
    assert main(["warmup", "--model", "sgd"]) == 0
    assert "n compiled" in capsys.readouterr().out


def test_every_estimator_is_fitted(monkeypatch):
    fitted, predicted = [], set()
    for name, kind in ESTIMATORS.items():
        monkeypatch.setattr(kind, "fit", lambda self, X, y, name=name: fitted.append((name, X.dtype, len(y))) or self)
        monkeypatch.setattr(kind, "predict", lambda self, X, name=name: predicted.add((name, X.shape[0] == 1)))
    warm_up(n_jobs=1)
    assert {name for name, _, _ in fitted} == set(ESTIMATORS)
    assert {str(dtype) for name, dtype, _ in fitted if name == "svc"} == {"float64", "float32", "uint8"}
    assert predicted == {(name, is_one) for name in ESTIMATORS for is_one in (False, True)}


def said_on_a_terminal(importing, cache):
    """Return what a process that calls two compiled functions prints on a terminal."""
    terminal, end = pty.openpty()
    process, found = importing.start(COMPILES, err=os.ttyname(end), NUMBA_CACHE_DIR=cache), b""
    code = process.wait()
    os.close(end)
    with open(terminal, "rb", buffering=0) as shown, contextlib.suppress(OSError):  # the end of a terminal
        while part := shown.read(4096):
            found += part
    assert code == 0, found
    return found.decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no pseudo-terminals")
def test_the_first_compilation_is_said_once_on_a_terminal(importing, tmp_path):
    said = said_on_a_terminal(importing, tmp_path)
    assert said.count("compiling") == 1 and "fastsvm warmup" in said
    assert said_on_a_terminal(importing, tmp_path) == ""
