"""Compilation before the first fit."""

import os
import pty
import sys
from pathlib import Path

import numpy as np
import pytest

from fastsvm._compiled.processor import JIT_DISABLED
from fastsvm.cli import main
from fastsvm.estimators import ESTIMATORS
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
    report = warm_up(["sgd"])
    assert report.models == ["sgd"] and report.n_compiled == 0 and report.seconds == 0
    assert Path(report.cache).is_dir()
    assert main(["warmup", "--model", "sgd"]) == 0
    assert "n compiled" in capsys.readouterr().out


def test_every_estimator_is_fitted(monkeypatch):
    fitted = []
    for name, kind in ESTIMATORS.items():
        monkeypatch.setattr(kind, "fit", lambda self, X, y, name=name: fitted.append((name, X.dtype, len(y))) or self)
        monkeypatch.setattr(kind, "predict", lambda self, X: np.zeros(X.shape[0]))
    warm_up()
    assert {name for name, _, _ in fitted} == set(ESTIMATORS)
    assert {str(dtype) for name, dtype, _ in fitted if name == "svc"} == {"float64", "float32", "uint8"}


def said_on_a_terminal(tmp_path, **environment):
    """Return what a process that calls two compiled functions prints on a terminal."""
    master, slave = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.dup2(slave, 2)
        os.execve(sys.executable, [sys.executable, "-c", COMPILES], os.environ | environment)
    os.close(slave)
    found = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the process has ended
            break
        if not part:
            break
        found += part
    os.close(master)
    assert os.waitpid(pid, 0)[1] == 0, found
    return found.decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no pseudo-terminals")
def test_the_first_compilation_is_said_once_on_a_terminal(tmp_path):
    said = said_on_a_terminal(tmp_path, NUMBA_CACHE_DIR=str(tmp_path))
    assert said.count("compiling") == 1 and "fastsvm warmup" in said
    assert said_on_a_terminal(tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) == ""
