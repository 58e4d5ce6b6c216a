"""Short sessions of the kill soak; `tests/soak/kill_soak.py` has long ones on real data."""

import os
import signal

import numpy as np
import pytest
from forked import COMMAND
from soak.cases import cases_of
from soak.kill_soak import FULL, Find, Soak, difference

from fastsvm.cli import main

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")

NAMES = ("svc, floats", "convert, floats")


WORDS = f"import warnings; warnings.simplefilter('error', RuntimeWarning)\n{COMMAND}"


class Forking(Soak):
    """Does not wait for imports."""

    def __init__(self, folder, forks):
        super().__init__(folder, seed=0, most_kills=1)
        self._forks = forks

    def _started(self, case, folder):
        self._sign = case.sign(folder)
        return self._forks.start(*case.words(folder), code=WORDS)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return {case.name: case for case in cases_of(tmp_path_factory.mktemp("inputs"), None, NAMES, small=True)}


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_command_ends_with_the_same_result(name, cases, tmp_path, forks):
    soak, case, folder = Forking(tmp_path, forks), cases[name], tmp_path / "whole"
    folder.mkdir()
    assert main(case.words(folder)) == 0
    soak.known[name] = case.left(folder), 0.5
    soak.session(case)
    assert sum(soak.counts.values()) <= 1


def test_the_soak_finds(tmp_path):
    soak, number = Soak(tmp_path, 0), -signal.SIGSEGV
    for code, what, err in (
        (number, "SIGTERM", ""), (1, "SIGINT", "failed"), (143, "SIGINT", ""), (130, "SIGINT", "Traceback"),
        (1, FULL, "RuntimeError"), (number, FULL, "No space left on device"),
    ):  # fmt: skip
        with pytest.raises(Find):
            soak._check_end(code, what, err, True)
    for code, what, err in (
        (143, "SIGTERM", ""),
        (-9, "SIGTERM twice", ""),
        (0, FULL, ""),
        (1, FULL, "No space left on device"),
    ):
        soak._check_end(code, what, err, True)
    assert difference(b"ab", b"abc") == "2 bytes, not 3"
    assert difference(np.ones(2), np.full(2, 2.0)) == "by up to 1.0 of 2.0"
