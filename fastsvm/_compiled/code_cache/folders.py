"""The folders in which machine code is cached. One that cannot be written to is read."""

import contextlib
import functools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numba

__all__ = ["folders", "writeable_folder"]

_NAME = "fastsvm-machine-code"


@functools.cache
def folders() -> tuple[Path, ...]:
    """Return the folders where machine code may be found, the preferred one first. They need not exist."""
    root, own = _cache_root(), writeable_folder()
    preferred = None if root is None else root / _NAME
    return tuple(dict.fromkeys(folder for folder in (preferred, own) if folder is not None))


@functools.cache
def writeable_folder() -> Path | None:
    """Return the first folder that takes new machine code, made where it is missing; None if there is none."""
    for root_of in (_cache_root, _private_root):  # the second makes a folder, so it is asked only where it is needed
        with contextlib.suppress(OSError):
            root = root_of()
            if root is None:
                continue
            folder = root / _NAME
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


def _cache_root() -> Path | None:
    config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them
    if config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(config.CACHE_DIR)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser()
    except RuntimeError:  # a container may run as a user without a home
        return None


def _private_root() -> Path | None:
    """Return a temporary folder to which only the user can write, because code is loaded from it, or None."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        root = Path(tempfile.gettempdir()) / f"fastsvm-cache-{user}"
    except FileNotFoundError:  # a container may have no folder that can be written to
        return None
    with contextlib.suppress(OSError):
        root.mkdir(mode=0o700)
    if hasattr(os, "getuid") and (not root.is_dir() or root.is_symlink() or root.stat().st_uid != os.getuid()):
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="fastsvm-cache-"))
        return None
    return root
