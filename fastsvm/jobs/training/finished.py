"""Writing results that took long to compute: a full disk may have room again soon."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastsvm.files.atomic_file import FULL
from fastsvm.jobs.say import say
from fastsvm.persistence.model_file import save
from fastsvm.tuning import current_tuning

__all__ = ["save_surely", "written_surely"]


def written_surely(write: Callable[[], None], path: str | Path) -> None:
    """Call `write`; while the disk is full, try again for 30 s. `path` is for the message.

    It raises OSError if the disk stays full, or at once if the error is another.
    """
    tuning = current_tuning().jobs
    end, told = time.monotonic() + tuning.say_s, False
    while True:
        try:
            write()
            return
        except OSError as error:
            if error.errno not in FULL or time.monotonic() >= end:
                raise
            if not told:
                say(f"cannot write {path}: {error.strerror}. Make room: fastsvm tries again for {tuning.say_s:.0f} s.")
                told = True
        time.sleep(tuning.wait_s)


def save_surely(model: Any, path: str | Path) -> None:
    """Save a model; if its disk is full, save it to a temporary file, which the message of the OSError names."""
    try:
        written_surely(lambda: save(model, path), path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}{_rescued(model)}", str(path)) from error


def _rescued(model: Any) -> str:
    """Save a model to a temporary file; return the end of the error message."""
    try:
        number, path = tempfile.mkstemp(prefix="fastsvm-model-", suffix=".fastsvm")
        os.close(number)
        try:
            save(model, path)
        except BaseException:
            os.unlink(path)
            raise
    except OSError:
        return "; the folder of temporary files has no room either"
    return f"; the fitted model is not lost: it was saved to {path}"
