"""The folder in which machine code is cached, named after a digest of the package's sources.

Numba's own cache compares only the file of the function itself. After an edit of a helper in another file, it would
load stale code.
"""

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numba

__all__ = ["PACKAGE", "cache_folder", "source_digest"]

PACKAGE = Path(__file__).parents[1]


def source_digest() -> str:
    """Return a digest of all sources of the package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    for setting in ("FASTSVM_WIDE_VECTORS", "FASTSVM_BYTE_PRODUCTS"):  # constants of compiled code
        digest.update(os.environ.get(setting, "").encode() + b";")
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
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
        return _private_root()


def _private_root() -> Path:
    """Return a temporary folder to which only the user can write, because code is loaded from it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    root = Path(tempfile.gettempdir()) / f"fastsvm-cache-{user}"
    with contextlib.suppress(OSError):
        root.mkdir(mode=0o700)
    if hasattr(os, "getuid") and (not root.is_dir() or root.is_symlink() or root.stat().st_uid != os.getuid()):
        return Path(tempfile.mkdtemp(prefix="fastsvm-cache-"))
    return root


def cache_folder() -> Path:
    name = f"fastsvm-{source_digest()}"
    for root in (_cache_root(), _private_root()):
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        _prune(root, keep=folder)
        return folder
    return Path(tempfile.mkdtemp(prefix="fastsvm-"))


def _prune(root: Path, keep: Path, newest: int = 3) -> None:
    """Remove all but the newest few folders: several checkouts of the package may be in use."""
    ours = re.compile(r"fastsvm-[0-9a-f]{16}")
    with contextlib.suppress(OSError):  # another process may prune too
        old = [folder for folder in root.iterdir() if ours.fullmatch(folder.name) and folder != keep]
        old.sort(key=lambda folder: folder.stat().st_mtime)
        for folder in old[: max(0, len(old) - newest)]:
            shutil.rmtree(folder, ignore_errors=True)
