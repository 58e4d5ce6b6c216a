"""Atomic writes, and locks of files and folders.

A file is written beside its destination, flushed to the disk and renamed. The system releases a lock when the process
ends, even if it is killed.
"""

import errno
import glob
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

windows: Any = None  # Windows' own locks
with suppress(ImportError):
    import msvcrt as windows

_PATIENCE = 0.5  # A lock is tried for so many seconds: `is_taken` in another process holds one for a moment.
LOCK = "owner.lock"  # the file that stands for a folder on Windows, where a folder cannot be locked
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # errors that end when there is room again
_NO_MORE = FULL | {errno.EFBIG}
_NAME_BYTES = 255  # A name of a file has at most so many, if the system does not say.
_ENDING = ".????????.part"  # of the names of scratch folders
_FIRST = "00000000"


# --- locks -----------------------------------------------------------------------------------------------


def has_locks() -> bool:
    """Return whether this system has locks and can rename open files."""
    return fcntl is not None


def take(file: IO) -> bool:
    """Lock an open file. Return False if another process has locked it; without locks, return True."""
    end = time.monotonic() + _PATIENCE
    while is_taken(file, shared=False):
        if time.monotonic() >= end:
            return False
        time.sleep(_PATIENCE / 10)
    return True


def is_taken(file: IO | int, shared: bool = True) -> bool:
    """Return whether another process has locked an open file. If not, lock it: shared or exclusive."""
    if fcntl is None:
        return False
    with suppress(OSError):
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def locked_folder(folder: Path) -> Iterator[bool | None]:
    """Lock a folder. Yields whether that succeeded; None if it cannot be locked, by nobody or not by this user."""
    number, succeeded = -1, None
    try:
        if windows is not None:
            number, succeeded = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT), False
            windows.locking(number, windows.LK_NBLCK, 1)
            succeeded = True
        elif fcntl is not None:
            number = os.open(folder, os.O_RDONLY)
            is_free = not is_taken(number, shared=False)
            succeeded = is_free and os.path.samestat(os.fstat(number), os.stat(folder))  # it may be another one by now
    except FileNotFoundError:  # another process removed it
        succeeded = False
    except OSError:
        pass
    try:
        yield succeeded
    finally:
        if number >= 0:
            os.close(number)
        if windows is not None and succeeded:
            with suppress(OSError):  # an open file could not be removed, so the folder may be empty but for it
                (folder / LOCK).unlink()
                folder.rmdir()


# --- atomic writes ---------------------------------------------------------------------------------------


def check_input(path: str | Path) -> None:
    """Raise FileNotFoundError if there is no such path, ValueError for a pipe, which may have no end, a socket or a
    device.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is a pipe, a socket or a device; write its content to a file and name that file.")


def check_output(output: str | Path, *inputs: str | Path) -> None:
    """Raise now the error that writing `output` would raise later, and one if it is one of the `inputs`."""
    output = Path(output)
    folder = output.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {output.name} to.")
    longest = _longest_name(folder)
    if len(os.fsencode(output.name)) > longest:
        raise ValueError(f"The name {output.name[:40]}... is too long: it has at most {longest} bytes there.")
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; name a file to write.")
    if output.exists() and not output.is_file():
        raise ValueError(f"{output} is a pipe, a socket or a device; name a file to write.")
    trial = name_beside(output, f".{secrets.token_hex(4)}.part")
    try:
        trial.touch(exist_ok=False)  # on some file systems, and for some users, permissions say nothing
    except OSError as error:
        if error.errno not in FULL:  # else there may be room later
            raise PermissionError(f"The folder {folder} cannot be written to: {error.strerror}.") from error
    finally:  # also after an interrupt
        trial.unlink(missing_ok=True)
    for path in map(Path, inputs):
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{output} is read by this command; name another file to write.")


def check_folder(path: str | Path) -> None:
    """Raise NotADirectoryError if a path that shall be a folder, old or new, is something else."""
    path = Path(path)
    if path.is_symlink() and not path.exists():
        raise NotADirectoryError(f"{path} is a symbolic link that leads nowhere; name a folder.")
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; name a folder.")


def name_beside(path: Path, ending: str) -> Path:
    """Return `path` with an ending appended. If the name gets too long, a digest replaces its end."""
    name, most = os.fsencode(path.name), _longest_name(path.absolute().parent)
    if len(name) + len(ending) > most:
        ending = f"~{hashlib.blake2b(name, digest_size=6).hexdigest()}{ending}"
        name = name[: most - len(ending)].decode("utf-8", "ignore").encode()
    return path.with_name(os.fsdecode(name) + ending)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path, in a `scratch_folder`. At the end that file replaces `path`."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    with scratch_folder(path, quick=True) as room:
        yield room / "new"
        complete(room / "new", path)


@contextmanager
def scratch_folder(path: str | Path, quick: bool = False) -> Iterator[Path]:
    """Yield a new folder beside `path` for temporary files. It is removed at the end, also after an error.

    Folders without a lock, left by killed processes, go too: with `quick` the one with the first name alone, so that
    thousands of files beside `path` cost nothing.
    """
    path = Path(path)
    first = room = name_beside(path, f".{_FIRST}.part")
    while True:
        try:
            room.mkdir(0o700)  # others may use the folder of temporary files
        except FileExistsError:
            room = name_beside(path, f".{secrets.token_hex(4)}.part")
            continue
        is_begun = False
        try:
            with locked_folder(room) as alone:
                if alone is False:  # another process takes it for an old folder and removes it
                    continue
                try:
                    is_begun = True
                    if not (quick and room is first):
                        with locked_folder(room) as again:
                            if alone and not again:  # some file systems ignore locks
                                remove_left(path, quick)
                    yield room
                    return
                except OSError as error:
                    if error.errno in _NO_MORE and error.filename is None:
                        raise OSError(error.errno, error.strerror, str(path)) from error
                    raise
                finally:  # while it is locked: afterwards another process may have made a folder of this name
                    shutil.rmtree(room, ignore_errors=True)
        except BaseException:
            if not is_begun:  # a signal came between the lock and the work
                with suppress(OSError):
                    room.rmdir()
            raise


def remove_left(path: Path, quick: bool = False) -> None:
    """Remove the scratch folders of a path that no process has locked; with `quick`, only that with the first name."""
    start = name_beside(path, _ENDING).name.removesuffix(_ENDING)
    first = name_beside(path, f".{_FIRST}.part")
    for room in [first] if quick else path.absolute().parent.glob(glob.escape(start) + _ENDING):
        if room.is_dir() and not room.is_symlink():
            with locked_folder(room) as alone:
                if alone:
                    shutil.rmtree(room, ignore_errors=True)


def complete(part: Path, path: Path) -> None:
    """Flush a complete file to the disk, then rename it. The bytes must be on the disk before the name."""
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def _longest_name(folder: Path) -> int:
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):
        return _NAME_BYTES
