"""Compress a saved model, so that it predicts faster."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from fastsvm.compression.compress import compress
from fastsvm.estimators import SVCSearch
from fastsvm.files.atomic_file import check_output
from fastsvm.jobs.inputs import InputOptions
from fastsvm.jobs.prediction.predict import opened
from fastsvm.jobs.say import say
from fastsvm.persistence.model_file import save

__all__ = ["CompressionReport", "compress_model"]


class CompressionReport(NamedTuple):
    """The result of `compress_model`.

    Attributes
    ----------
    output : str
        File of the compressed model.
    n_support_before, n_support : int
        Support vectors before and after.
    max_difference, rms_difference : float
        The largest difference of a decision value on the given rows, and the root mean square of the differences.
    seconds : float
        Time taken.
    """

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
    """Write a model with fewer support vectors.

    Parameters
    ----------
    model_path : str or Path
        File of the model.
    path : str or Path
        File with rows on which the decision values must agree, in any format that `convert` knows.
    output : str or Path
        File to write.
    options : InputOptions or None
        How to read a file that is not in HDF5.
    refit : bool
        Whether the labels of the file are used.
    **given
        Parameters of `fastsvm.compress`.

    Returns
    -------
    CompressionReport

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If a file cannot be read, or the model cannot be compressed.
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
