"""Prediction files in small blocks, and a comparison with those of uninterrupted runs."""

import os

import h5py

from fastsvm.jobs.predict import parts_of
from fastsvm.jobs.training.checkpoints import read

N, BLOCK = 2000, 100


def write(path, **columns):
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file[name] = values
    return path


def alike(report):
    """Return the part of a report that does not depend on paths and times."""
    return report | {"output": "", "seconds": 0.0, "compile_seconds": 0.0}


def assert_complete(output, report, wanted):
    """Assert that an output equals that of an uninterrupted run, and that no other file is left."""
    assert output.read_bytes() == wanted[0] and alike(report) == wanted[1]
    assert not [path for path in parts_of(output) if path.exists()]
    assert os.listdir(output.parent) == [output.name]


def safe_rows(output):
    state = parts_of(output)[1]
    return read(state, {})["state"].rows if state.exists() else 0
