"""IDX files, the format of MNIST: a magic number, big-endian dimensions, then the values.

Bytes 0 and 1 are zero. Byte 2 is the type of the values, byte 3 the number of dimensions. Each dimension is a 32-bit
integer.
"""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from fastsvm.formats.readers.stream import Matrix, Options, Stream, compressed, head, opened, rows_of
from fastsvm.tuning import current_tuning

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_PREFIXES = {"train": "train", "test": "(?:t10k|test)"}


def recognises(path: Path) -> bool:
    """Return whether a path is an IDX file or a folder with images in IDX files."""
    if path.is_dir():
        return any(_images_in(path, split) for split in _PREFIXES)
    return _is_magic(head(path, 4))


def _is_magic(start: bytes) -> bool:
    return len(start) == 4 and start[:2] == b"\0\0" and start[2] in _TYPES and 1 <= start[3] <= 8


@contextmanager
def read(path: Path, options: Options) -> Iterator[Stream]:
    """Open images and, unless `label` is False, their labels."""
    images_path = _images(path, options.split)
    labels_path = _labels_of(images_path, options.label)
    images = _array(images_path, options)
    if len(images.shape) < 2:
        raise ValueError(f"{images_path} has one dimension, so it holds labels; name the file of the images.")
    labels = None if labels_path is None else _array(labels_path, options)
    if labels is not None:
        _check_labels(labels, images)
    yield rows_of(images, labels, options)


def _array(path: Path, options: Options) -> Matrix:
    """Return the array in a file, which is decompressed first."""
    with opened(path) as stream:
        magic = stream.read(4)
        if not _is_magic(magic):
            raise ValueError(f"{path} is not an IDX file: it starts with the bytes {magic.hex(' ') or '(none)'}.")
        raw = stream.read(4 * magic[3])
        if len(raw) < 4 * magic[3]:
            raise ValueError(f"{path} is truncated: its {magic[3]} dimensions end at byte {4 + len(raw)}.")
        shape, dtype = tuple(np.frombuffer(raw, ">u4").tolist()), np.dtype(_TYPES[magic[2]])
        if not 0 < math.prod(shape[1:]) <= np.iinfo(np.int32).max or shape[0] == 0:
            raise ValueError(f"{path} has the dimensions {shape}, which cannot be rows of features.")
        begin, expected, plain = stream.tell(), stream.tell() + math.prod(shape) * dtype.itemsize, path
        if compressed(path) is not None:
            with NamedTemporaryFile(dir=options.scratch, delete=False) as file:
                plain = Path(file.name)
                file.write(magic + raw)
                while file.tell() <= expected and (piece := stream.read(current_tuning().storage.piece_bytes)):
                    file.write(piece)
    size = plain.stat().st_size
    if size != expected:
        raise ValueError(
            f"{path} holds {size} bytes, its dimensions {shape} ask for {expected}: it is truncated or damaged; get "
            "the file again."
        )
    return Matrix(str(path), np.memmap(plain, dtype, "r", begin, shape))


def _check_labels(labels: Matrix, images: Matrix) -> None:
    if len(labels.shape) != 1 or labels.dtype.kind not in "ui":
        raise ValueError(
            f"{labels.where} must hold integers in one dimension to be labels; it holds {labels.dtype} in the "
            f"dimensions {labels.shape}."
        )
    if labels.shape[0] != images.shape[0]:
        raise ValueError(f"{labels.where} has {labels.shape[0]} labels, {images.where} has {images.shape[0]} images.")


def _images_in(folder: Path, split: str) -> list[Path]:
    name = re.compile(_PREFIXES[split] + r"-images[-.]idx\d-ubyte(?:\.gz|\.bz2|\.xz|\.zst)?")
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))


def _images(path: Path, split: str | None) -> Path:
    """Return the file of the images for a path and a split."""
    if not path.is_dir():
        if split is not None:
            raise ValueError(f"split applies to folders; {path} is a file. Leave it out.")
        return path
    if split is None:
        raise ValueError(f"{path} is a folder; set split='train' or split='test'.")
    images = _images_in(path, split)
    if not images:
        raise FileNotFoundError(f"There is no {split} images file, as train-images-idx3-ubyte.gz, in {path}.")
    return images[0]


def _labels_of(images: Path, label: object) -> Path | None:
    """Return the file of the labels: the given one, or the one beside the images."""
    if label is False:
        return None
    if label is not None:
        if not Path(str(label)).is_file():
            raise FileNotFoundError(f"There is no file {label} with the labels.")
        return Path(str(label))
    name = re.sub(r"idx\d", "idx1", images.name.replace("images", "labels"))
    plain = re.sub(r"\.(gz|bz2)$", "", name)
    for candidate in (name, plain, *(f"{plain}.{kind}" for kind in ("gz", "bz2", "xz", "zst"))):
        path = images.with_name(candidate)
        if candidate != images.name and path.is_file():
            return path
    raise FileNotFoundError(
        f"There are no labels beside {images}: {name} does not exist. Name them with label=, or say "
        "label=False to store none."
    )
