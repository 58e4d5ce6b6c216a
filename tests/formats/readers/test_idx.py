import gzip
from pathlib import Path

import numpy as np
import pytest

from fastsvm.formats import convert, recognise

CODES = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}
IMAGES = np.random.default_rng(0).integers(0, 100, (23, 4, 5)).astype(np.uint8)
LABELS = (np.arange(23) % 7).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    start = bytes([0, 0, CODES[array.dtype.name], array.ndim])
    return start + np.array(array.shape, ">u4").tobytes() + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write(folder: Path, prefix: str = "train", suffix: str = "", images: np.ndarray = IMAGES) -> Path:
    """Write images and labels; return the file of the images."""
    pack = gzip.compress if suffix == ".gz" else bytes
    path = folder / f"{prefix}-images-idx3-ubyte{suffix}"
    path.write_bytes(pack(idx(images)))
    (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(LABELS)))
    return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_images_and_labels(tmp_path, converted, suffix):
    path = write(tmp_path, suffix=suffix)
    for stored in (converted(path), converted(tmp_path, split="train")):
        assert stored.X.dtype == np.uint8 and stored.y.dtype == np.int64
        np.testing.assert_array_equal(stored.X, IMAGES.reshape(23, 20))
        np.testing.assert_array_equal(stored.y, LABELS)


@pytest.mark.parametrize("dtype", list(CODES))
def test_every_type(tmp_path, converted, dtype):
    stored = converted(write(tmp_path, images=IMAGES.astype(dtype)))
    assert stored.X.dtype == np.dtype(dtype) and stored.X.dtype.isnative
    np.testing.assert_array_equal(stored.X, IMAGES.reshape(23, 20))


def test_the_test_set(tmp_path, converted):
    write(tmp_path, "t10k", ".gz", IMAGES[::-1])
    np.testing.assert_array_equal(converted(tmp_path, split="test").X, IMAGES[::-1].reshape(23, 20))


def test_labels_elsewhere_and_none(tmp_path, converted, refused):
    path = write(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte"
    labels.rename(tmp_path / "elsewhere")
    assert "train-labels-idx1-ubyte does not exist" in refused(path, FileNotFoundError)
    assert "no file" in refused(path, FileNotFoundError, label=labels)
    np.testing.assert_array_equal(converted(path, label=tmp_path / "elsewhere").y, LABELS)
    assert converted(path, label=False).y is None


def test_names_of_classes(tmp_path, converted):
    assert converted(write(tmp_path), class_names=["a", "ä"]).class_names == ["a", "ä"]


def test_splits(tmp_path, refused):
    path = write(tmp_path)
    assert "split='train'" in refused(tmp_path)
    assert "Leave it out" in refused(path, split="train")
    assert "test images" in refused(tmp_path, FileNotFoundError, split="test")


@pytest.mark.parametrize("keep", range(1, 16 + 23 * 20, 37))
def test_truncated_images(tmp_path, refused, keep):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    assert path.name in refused(path, format="idx")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert path.name in refused(path, format="idx")


@pytest.mark.parametrize("part", np.linspace(0, 0.99, 9))
def test_truncated_gzip(tmp_path, refused, part):
    path = write(tmp_path, suffix=".gz")
    for broken in (path, tmp_path / "train-labels-idx1-ubyte.gz"):
        whole = broken.read_bytes()
        broken.write_bytes(whole[: max(1, int(part * len(whole)))])
        assert broken.name in refused(path, format="idx")
        broken.write_bytes(whole)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_surplus_bytes(tmp_path, refused, suffix):
    path = write(tmp_path, suffix=suffix)
    pack = gzip.compress if suffix else bytes
    path.write_bytes(pack(idx(IMAGES) + b"x"))
    assert "damaged" in refused(path)


def test_unfit_files(tmp_path, refused):
    path = write(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte"
    assert "name the file of the images" in refused(labels, label=False)
    labels.write_bytes(idx(LABELS[:-1]))
    assert "22 labels" in refused(path)
    labels.write_bytes(idx(LABELS.astype(np.float32)))
    assert "integers in one dimension" in refused(path)
    labels.write_bytes(b"\1\2\3\4\5")
    assert "01 02 03 04" in refused(path)
    path.write_bytes(idx(IMAGES[:0]))
    assert "cannot be rows" in refused(path)


def test_not_finite(tmp_path, refused):
    images = IMAGES.astype(np.float32)
    images[7, 1, 2] = np.nan
    assert "row 7, column 7" in refused(write(tmp_path, images=images))


def test_recognised(tmp_path):
    assert recognise(write(tmp_path)) == recognise(write(tmp_path, "t10k", ".gz")) == recognise(tmp_path) == "idx"


@pytest.mark.realdata
def test_real_mnist(real_data, tmp_path, load):
    source = real_data / "mnist"
    summary = convert(source, tmp_path / "train.h5", split="train", shuffle=False)
    assert (summary.n_samples, summary.n_features, summary.n_classes) == (60_000, 784, 10)
    stored = load(summary.path)
    images, labels = (
        np.frombuffer(gzip.decompress((source / f"train-{name}-ubyte.gz").read_bytes()), np.uint8)
        for name in ("images-idx3", "labels-idx1")
    )
    assert np.array_equal(stored.X, images[16:].reshape(-1, 784)) and np.array_equal(stored.y, labels[8:])
    one, other = (
        load(convert(source, tmp_path / f"{name}.h5", split="test", **options).path)
        for name, options in (("one", {}), ("other", {"memory": 2 << 20}))
    )
    assert np.array_equal(one.X, other.X) and np.array_equal(one.y, other.y) and one.X.shape == (10_000, 784)
