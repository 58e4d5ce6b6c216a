"""Is a file that is to be written usable? Asked before any work is done."""

import os
from pathlib import Path

__all__ = ["check_output"]


def check_output(output: str | Path, *inputs: str | Path) -> None:
    """Raise the error that writing `output` would end with.

    Raises
    ------
    ValueError, FileNotFoundError, PermissionError
        If it is a folder or one of the `inputs`, its folder does not exist, or cannot be written to.
    """
    output = Path(output)
    folder = output.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {output.name} to.")
    if output.is_dir():
        raise ValueError(f"{output} is a folder; name a file to write.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder} cannot be written to.")
    for path in map(Path, inputs):
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{output} is read by this command; name another file to write.")
