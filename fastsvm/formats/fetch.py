"""Download and conversion of published data sets by name."""

from pathlib import Path
from typing import NamedTuple

from fastsvm.files.atomic_file import check_folder, check_output
from fastsvm.formats.conversion import convert
from fastsvm.formats.download import FetchError, Remote, download

__all__ = ["DATASETS", "Dataset", "FetchError", "fetch"]


class Dataset(NamedTuple):
    """A published data set.

    `addresses` are of folders with the files, each ending in a slash. The first one that has the files is used.
    """

    addresses: tuple[str, ...]
    files: tuple[Remote, ...]
    source: str = "."  # It is the file or folder to convert, relative to that of the downloaded files.
    class_names: tuple[str, ...] | None = None  # They are given if they are not in the files.


DATASETS = {
    "cifar10": Dataset(
        ("https://www.cs.toronto.edu/~kriz/",),
        (Remote("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170052171),),
        "cifar-10-binary.tar.gz",
    ),
    "mnist": Dataset(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
        (
            Remote("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
            Remote("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28881),
            Remote("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1648877),
            Remote("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4542),
        ),
    ),
    "fashion-mnist": Dataset(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
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
    addresses = dataset.addresses if base_url is None else (base_url.rstrip("/") + "/",)
    targets = {split: folder / f"{name}-{split}.h5" for split in ("train", "test")}
    for target in targets.values():
        check_output(target)
    for remote in dataset.files:
        _from_any(addresses, originals, remote, progress)
    for split, target in targets.items():
        if not target.exists():
            source, names = originals / dataset.source, dataset.class_names
            convert(source, target, split=split, class_names=names, progress=progress)
    return list(targets.values())


def _from_any(addresses: tuple[str, ...], folder: Path, remote: Remote, progress: bool) -> None:
    """Download a file from the first address that has it."""
    failures: list[FetchError] = []
    for address in addresses:
        try:
            download(address + remote.name, folder, remote, progress)
            return
        except FetchError as error:
            failures.append(error)
    raise FetchError(" ".join(map(str, failures))) from failures[-1]
