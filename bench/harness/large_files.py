"""Where large files of samples are written, and how: beside, and renamed when they are whole."""

from collections.abc import Callable
from pathlib import Path

from bench.harness.data import DataMissing
from bench.harness.outcomes import Options
from bench.harness.processes import ROOT

__all__ = ["folder_of", "kept"]


def folder_of(is_quick: bool, options: Options, temporary: Path, what: str) -> Path:
    """Return the folder of the options; quick cases may do with a temporary one.

    Raises
    ------
    DataMissing
        If there is no folder, or it is inside the repository.
    """
    folder = options.folder
    if folder is None:
        if not is_quick:
            raise DataMissing(f"--folder is needed for {what}")
        return temporary
    if folder.resolve().is_relative_to(ROOT):
        raise DataMissing(f"{folder} is inside the repository, where no data belong")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(path: Path, fill: Callable[[Path], None]) -> Path:
    """Return the path of a file that `fill` writes, unless it exists. One that was not finished is removed."""
    if path.exists():
        return path
    unfinished = path.with_suffix(".part")
    try:
        fill(unfinished)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return unfinished.rename(path)
