"""Download and conversion of published data sets by name. A download resumes an earlier attempt."""

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from fastsvm.files.atomic_file import check_folder, check_output, complete, name_beside
from fastsvm.formats.conversion import convert
from fastsvm.progress_bar import progress_bar
from fastsvm.tuning import current_tuning

_TIMEOUT = 60.0  # A server that sends nothing for so many seconds is given up.


class FetchError(OSError):
    """A file could not be downloaded. The message names the address and says what to do."""


class Remote(NamedTuple):
    """A file as its publisher describes it: its name without folders, and its size in bytes."""

    name: str
    md5: str
    size: int


class Dataset(NamedTuple):
    """A published data set."""

    address: str  # It is that of a folder, and ends in a slash.
    files: tuple[Remote, ...]
    source: str = "."  # It is the file or folder to convert, relative to that of the downloaded files.
    class_names: tuple[str, ...] | None = None  # They are given if they are not in the files.


DATASETS = {
    "cifar10": Dataset(
        "https://www.cs.toronto.edu/~kriz/",
        (Remote("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170052171),),
        "cifar-10-binary.tar.gz",
    ),
    "mnist": Dataset(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        (
            Remote("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
            Remote("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28881),
            Remote("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1648877),
            Remote("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4542),
        ),
    ),
    "fashion-mnist": Dataset(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        (
            Remote("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
            Remote("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29515),
            Remote("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4422102),
            Remote("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5148),
        ),
        class_names=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
    ),
}


def fetch(name: str, folder: str | Path, *, progress: bool = True, base_url: str | None = None) -> list[Path]:
    """Download a published data set, a key of `DATASETS`, convert it to HDF5, and return its files, training set first.

    The folder, which is made if there is none, gets `<name>-train.h5` and `<name>-test.h5`, and the files as published
    in `<name>/`. Files that exist with the right checksum are not downloaded again. An interrupted download is resumed.
    An HDF5 file that exists is not changed. `base_url` is the address of a folder with the same files; by default it is
    the publisher's. An unknown name raises ValueError. A file that cannot be downloaded or has another checksum raises
    FetchError, a subclass of OSError.
    """
    if name not in DATASETS:
        raise ValueError(f"There is no data set {name!r} to fetch; there are {', '.join(DATASETS)}.")
    dataset, folder = DATASETS[name], Path(folder)
    check_folder(folder)
    originals = folder / name
    originals.mkdir(parents=True, exist_ok=True)
    address = dataset.address if base_url is None else base_url.rstrip("/") + "/"
    targets = {split: folder / f"{name}-{split}.h5" for split in ("train", "test")}
    for target in targets.values():
        check_output(target)
    for remote in dataset.files:
        download(address + remote.name, originals, remote, progress)
    for split, target in targets.items():
        if not target.exists():
            source, names = originals / dataset.source, dataset.class_names
            convert(source, target, split=split, class_names=names, progress=progress)
    return list(targets.values())


def download(url: str, folder: Path, remote: Remote, progress: bool = True) -> Path:
    """Download a file unless it exists with the right checksum, and return its path; FetchError says what fails.

    It is `<name>.part` in the folder until it is complete and checked. The part of an earlier attempt is resumed.

    >>> import tempfile
    >>> remote = Remote("rows.gz", "0" * 32, 10)
    >>> download("ftp://example.org/rows.gz", Path(tempfile.mkdtemp()), remote)
    Traceback (most recent call last):
        ...
    fastsvm.formats.fetch.FetchError: ftp://example.org/rows.gz is not an http or https address.
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
        except FetchError:
            raise
        except urllib.error.HTTPError as error:
            raise FetchError(f"{url} is not available: the server answers {error.code} {error.reason}.") from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise FetchError(f"{url} cannot be downloaded: {reason}; run this again to resume.") from error
    if (checksum := _md5(part)) != remote.md5:
        size = part.stat().st_size
        part.unlink()
        raise FetchError(
            f"{url} is not the file expected: its MD5 checksum is {checksum}, expected is {remote.md5} ({size} bytes, "
            f"expected are {remote.size}). The download was removed; run this again, or get the file elsewhere."
        )
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


def _md5(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
