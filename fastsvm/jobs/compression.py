"""Compress a saved model, so that it predicts faster."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from fastsvm.compression import compress
from fastsvm.estimators import SVCSearch
from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.inputs import InputOptions
from fastsvm.jobs.prediction.predict import opened
from fastsvm.jobs.say import say
from fastsvm.persistence.model_file import save

__all__ = ["CompressionReport", "compress_model"]


class CompressionReport(NamedTuple):
    """The result of `compress_model`: support vectors before and after, and differences of decision values."""

    output: str
    n_support_before: int
    n_support: int
    max_difference: float
    rms_difference: float
    seconds: float


def compress_model(
    model_path: str | Path,
    path: str | Path,
    output: str | Path,
    options: InputOptions | None = None,
    *,
    refit: bool = False,
    **given: Any,
) -> CompressionReport:
    """Write a model with fewer support vectors, whose decision values agree on the rows of the file `path`.

    That file has any format that `convert` knows; `options` say how to read it. With `refit` its labels are used.
    `given` are parameters of `fastsvm.compress`. FileNotFoundError, TypeError or ValueError says that a file cannot be
    read, or that the model cannot be compressed.
    """
    begin = time.perf_counter()
    check_output(output, model_path, path)
    with opened(model_path, path, options) as (model, data):
        model = model.best_estimator_ if isinstance(model, SVCSearch) else model
        labels = data.y if refit else None
        if refit and labels is None:
            raise ValueError(f"{path} has no labels, which --refit needs.")
        found = compress(model, data.X, y=labels, **given)
    if found.n_support == len(model.support_):
        say("note: nothing is gained: as many support vectors are needed. Pass a larger --tol, or --n-support.")
    save(found.model, output)
    differences = found.max_difference, found.rms_difference
    seconds = time.perf_counter() - begin
    return CompressionReport(str(output), len(model.support_), found.n_support, *differences, seconds)
