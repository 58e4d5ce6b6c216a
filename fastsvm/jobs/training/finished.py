"""Writing what took long to compute: a disk that is full now may have room soon."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastsvm.files.atomic_file import FULL
from fastsvm.jobs.say import say
from fastsvm.persistence.model_file import save

__all__ = ["save_surely", "written_surely"]

_SECONDS = 30.0  # until it is given up
_PAUSE = 1.0


def written_surely(write: Callable[[], None], path: str | Path) -> None:
    """Call `write` until there is room for the file that it writes, for a while.

    Raises
    ------
    OSError
        If there is none, or at once if the disk has another reason.
    """
    end, told = time.monotonic() + _SECONDS, False
    while True:
        try:
            write()
            return
        except OSError as error:
            if error.errno not in FULL or time.monotonic() >= end:
                raise
            if not told:
                say(f"{path} cannot be written: {error.strerror}. Make room: it is tried again for {_SECONDS:.0f} s.")
                told = True
        time.sleep(_PAUSE)


def save_surely(model: Any, path: str | Path) -> None:
    """Save a model; where its place has no room for it, among the system's temporary files.

    Raises
    ------
    OSError
        If it is not in its place; the message says where it is.
    """
    try:
        written_surely(lambda: save(model, path), path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}{_rescued(model)}", str(path)) from error


def _rescued(model: Any) -> str:
    """Save a model where there may be room, and return what is to be said of that."""
    try:
        number, path = tempfile.mkstemp(prefix="fastsvm-model-", suffix=".h5")
        os.close(number)
        try:
            save(model, path)
        except BaseException:
            os.unlink(path)
            raise
    except OSError:
        return ", nor is there for temporary files"
    return f", but the fitted model is not lost: it is in {path}"
