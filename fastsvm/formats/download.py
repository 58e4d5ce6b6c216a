"""Download of one file of known size and checksum, which resumes an earlier attempt."""

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from fastsvm.files.atomic_file import complete, name_beside
from fastsvm.progress_bar import progress_bar
from fastsvm.tuning import current_tuning

__all__ = ["FetchError", "Remote", "download"]

_TIMEOUT = 60.0  # A server that sends nothing for so many seconds is given up.


class FetchError(OSError):
    """A file could not be downloaded. The message names the address and says what to do."""


class Remote(NamedTuple):
    """A file as its publisher describes it: its name without folders, and its size in bytes."""

    name: str
    md5: str
    size: int


def download(url: str, folder: Path, remote: Remote, progress: bool = True) -> Path:
    """Download a file unless it exists with the right checksum, and return its path.

    Its name in the folder is `<name>.part` until it is complete and checked. A part that an earlier attempt left is
    resumed. FetchError says that the address is not of http or https, that the server cannot be reached, answers with
    an error or ends early, or that the checksum differs.

    >>> import tempfile
    >>> remote = Remote("rows.gz", "0" * 32, 10)
    >>> download("ftp://example.org/rows.gz", Path(tempfile.mkdtemp()), remote)
    Traceback (most recent call last):
        ...
    fastsvm.formats.download.FetchError: ftp://example.org/rows.gz is not an http or https address.
    """
    path = folder / remote.name
    if path.is_file() and path.stat().st_size == remote.size and _md5(path) == remote.md5:
        return path
    if not url.startswith(("http://", "https://")):
        raise FetchError(f"{url} is not an http or https address.")
    part = name_beside(path, ".part")
    if part.exists() and part.stat().st_size > remote.size:
        part.unlink()
    if not part.exists() or part.stat().st_size < remote.size:
        try:
            _transfer(url, part, remote, progress)
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise _explained(error, url) from error
    _check(part, url, remote)
    complete(part, path)
    return path


def _transfer(url: str, part: Path, remote: Remote, progress: bool) -> None:
    """Append the missing bytes to the part, or replace it if the server sends all bytes."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the server has no more bytes than the part: the checksum decides
            return
        raise
    piece_bytes = current_tuning().storage.piece_bytes
    with response:
        start = _start(response, have)
        bar = progress_bar(
            shown=progress, total=remote.size, initial=start, desc=remote.name, unit="B", unit_scale=True
        )
        with bar, open(part, "ab" if start else "wb") as file:
            while piece := response.read(piece_bytes):
                file.write(piece)
                bar.update(len(piece))
                if file.tell() > remote.size:  # this is another file, which the checksum will reveal
                    return
    if part.stat().st_size < remote.size:
        raise FetchError(f"{url} ended after {part.stat().st_size} of {remote.size} bytes; run this again to resume.")


def _start(response: http.client.HTTPResponse, have: int) -> int:
    """Return the first byte that the server sends."""
    if response.status != 206:
        return 0
    sent = response.headers.get("Content-Range", "")
    match = re.match(r"bytes (\d+)-", sent)
    if match is None or int(match[1]) != have:
        raise FetchError(f"The server was asked for the bytes from {have} on and sends {sent or 'others'!r}.")
    return have


def _explained(error: Exception, url: str) -> FetchError:
    if isinstance(error, FetchError):
        return error
    if isinstance(error, urllib.error.HTTPError):
        return FetchError(f"{url} is not available: the server answers {error.code} {error.reason}.")
    reason = getattr(error, "reason", None) or error
    return FetchError(f"{url} cannot be downloaded: {reason}; run this again to resume.")


def _check(part: Path, url: str, remote: Remote) -> None:
    found = _md5(part)
    if found != remote.md5:
        size = part.stat().st_size
        part.unlink()
        raise FetchError(
            f"{url} is not the file expected: its MD5 checksum is {found}, expected is {remote.md5} ({size} "
            f"bytes, expected are {remote.size}). The download was removed; run this again, or get the file "
            "elsewhere."
        )


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
