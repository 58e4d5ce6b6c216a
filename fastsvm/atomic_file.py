"""Files that are whole or not there: written beside their destination, made safe on the disk, then renamed."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_output", "complete", "name_beside", "room_beside", "written_beside"]

_NAME_BYTES = 255  # of a file's name, where the system does not tell


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
        raise IsADirectoryError(f"{output} is a folder; name a file to write.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder} cannot be written to.")
    for path in map(Path, inputs):
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{output} is read by this command; name another file to write.")


def name_beside(path: Path, ending: str) -> Path:
    """Return `path` with an ending more; of a name that gets too long, a digest stands for what is cut off."""
    name, most = os.fsencode(path.name), _longest_name(path.absolute().parent)
    if len(name) + len(ending) > most:
        ending = f"~{hashlib.blake2b(name, digest_size=6).hexdigest()}{ending}"
        name = name[: most - len(ending)].decode("utf-8", "ignore").encode()
    return path.with_name(os.fsdecode(name) + ending)


@contextmanager
def written_beside(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; at the end it is renamed, or removed after an error.

    Raises
    ------
    FileNotFoundError
        If the folder of `path` does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    part = name_beside(path, f".{secrets.token_hex(4)}.part")
    try:
        yield part
        complete(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def room_beside(path: str | Path) -> Iterator[Path]:
    """Yield a new folder beside `path` for what is on its way there; it is removed at the end, whatever happens."""
    room = name_beside(Path(path), f".{secrets.token_hex(4)}.part")
    room.mkdir()
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def complete(part: Path, path: Path) -> None:
    """Give a file that is complete its name, when its bytes are safe: the name must not be there before them."""
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def _longest_name(folder: Path) -> int:
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):
        return _NAME_BYTES
