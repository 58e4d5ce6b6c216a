from pathlib import Path

import numpy as np
import pytest

from fastsvm.formats import convert, recognise
from fastsvm.sources import open_hdf5

X = np.random.default_rng(0).normal(size=(50, 6))
y = np.arange(50) % 4


def save(folder: Path, array: np.ndarray, name: str = "rows.npy") -> Path:
    np.save(folder / name, array, allow_pickle=True)
    return folder / name


def pack(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "rows.npz", **arrays)
    return folder / "rows.npz"


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "f2", "u1", ">i4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_keeps_the_type(tmp_path, converted, dtype, order):
    array = np.asarray(X * 10, order=order).astype(dtype)
    stored = converted(save(tmp_path, array))
    assert stored.y is None
    assert stored.X.dtype == (np.uint8 if dtype == "?" else np.dtype(dtype).newbyteorder("="))
    np.testing.assert_array_equal(stored.X, array)


@pytest.mark.parametrize("labels", [y, y / 3, y[:, None], y.astype("U1"), y.astype("S1"), y > 1])
def test_labels_in_a_second_file(tmp_path, converted, labels):
    stored = converted(save(tmp_path, X), label=save(tmp_path, labels, "labels.npy"))
    flat = labels.ravel()
    np.testing.assert_array_equal(stored.y, flat.astype(str) if labels.dtype.kind in "SU" else flat)


def test_images_are_flattened(tmp_path, converted):
    np.testing.assert_array_equal(converted(save(tmp_path, X.reshape(50, 2, 3))).X, X)


def test_unfit_arrays(tmp_path, refused):
    assert "two dimensions" in refused(save(tmp_path, y))
    assert "two dimensions" in refused(save(tmp_path, X.astype(complex)))
    assert "empty" in refused(save(tmp_path, X[:0]))
    assert "cannot be read" in refused(save(tmp_path, np.array([[{}]], object)))
    labels = save(tmp_path, y[1:], "labels.npy")
    assert "(49,)" in refused(save(tmp_path, X), label=labels)
    assert "no file" in refused(save(tmp_path, X), FileNotFoundError, label="nowhere.npy")
    assert "archive" in refused(save(tmp_path, X), label=pack(tmp_path, y=y))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(tmp_path, refused, value):
    broken = X.copy()
    broken[33, 4] = value
    assert "row 33, column 4" in refused(save(tmp_path, broken))
    assert "row 33, column 4" in refused(pack(tmp_path, X=broken), memory=1)
    labels = save(tmp_path, np.where(y == 3, value, y), "labels.npy")
    assert "row 3, column 0" in refused(save(tmp_path, X), label=labels)


@pytest.mark.parametrize("keep", [1, 5, 6, 8, 60, 127, 128, 129, 1000, 128 + 50 * 6 * 8 - 1])
def test_truncated_npy(tmp_path, refused, keep):
    path = save(tmp_path, X)
    path.write_bytes(path.read_bytes()[:keep])
    assert "rows.npy" in refused(path, format="npy")


@pytest.mark.parametrize("compress", [np.savez, np.savez_compressed])
def test_npz(tmp_path, converted, compress):
    path = tmp_path / "rows.npz"
    compress(path, X=np.asfortranarray(X) if compress is np.savez else X, y=y)
    for memory in (1 << 28, 1):
        stored = converted(path, memory=memory)
        np.testing.assert_array_equal(stored.X, X)
        np.testing.assert_array_equal(stored.y, y)


def test_an_npz_archive_that_leads_out_of_itself(tmp_path, refused):
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.ones((3, 2)), y=np.arange(3))
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\5\6")
    content[end + 16 : end + 20] = (len(content)).to_bytes(4, "little")  # where the list of its arrays begins
    path.write_bytes(content)
    assert "rows.npz is truncated or damaged" in refused(path, format="npz")


def test_npz_with_other_names(tmp_path, converted, refused):
    path = pack(tmp_path, data=X, target=y, frame=np.array("none"))
    np.testing.assert_array_equal(converted(path).y, y)
    assert converted(path, label=False).y is None
    path = pack(tmp_path, x_train=X, y_train=y, x_test=X[:5], y_test=y[:5])
    assert "x_test (5, 6) float64" in refused(path)
    stored = converted(path, array="x_test", label="y_test")
    np.testing.assert_array_equal(stored.X, X[:5])
    assert "no array 'x'" in refused(path, array="x")
    assert "no array 'z'" in refused(path, array="x_test", label="z")
    assert "Set label=" in refused(pack(tmp_path, X=X, a=y, b=y))
    assert "Name it by array=" in refused(pack(tmp_path, a=y))


def test_unfit_archives(tmp_path, refused):
    path = tmp_path / "rows.npz"
    np.savez(path, X=np.array([[{}]], object))
    assert "objects" in refused(path)
    pack(tmp_path, X=X)
    path.write_bytes(path.read_bytes()[:-3])
    assert "rows.npz is truncated" in refused(path)


def test_every_damaged_byte_of_an_archive_is_noticed(tmp_path, refused):
    whole = pack(tmp_path, X=X, y=y).read_bytes()
    path = tmp_path / "rows.npz"
    for at in range(300, 2000, 171):
        broken = bytearray(whole)
        broken[at] ^= 1
        path.write_bytes(broken)
        assert "rows.npz" in refused(path)


def test_little_memory_gives_the_same_file(tmp_path, converted):
    rows = np.arange(10_000.0).reshape(-1, 5)
    path = pack(tmp_path, X=rows, y=np.arange(2000))
    one, other = (converted(path, shuffle=True, memory=memory) for memory in (1 << 24, 1 << 14))
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.X[:, 0], one.y * 5.0)


def test_recognised(tmp_path):
    assert recognise(save(tmp_path, X)) == "npy"
    assert recognise(pack(tmp_path, X=X)) == "npz"


def test_options_that_do_not_apply(tmp_path, refused):
    path = save(tmp_path, X)
    assert "split does not apply to npy, only to cifar10, idx" in refused(path, split="train")
    assert "dense does not apply" in refused(path, dense=False)
    assert "float32 or float64" in refused(path, dtype="int8")
    assert "no format 'parquet'" in refused(path, format="parquet")
    assert "memory" in refused(path, memory=0)
    assert "seed" in refused(path, seed=-1)


def test_paths(tmp_path):
    path = save(tmp_path, X)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npy"):
        convert(tmp_path / "nowhere.npy", tmp_path / "out.h5")
    with pytest.raises(FileNotFoundError, match="no folder"):
        convert(path, tmp_path / "nowhere" / "out.h5")
    with pytest.raises(IsADirectoryError, match="folder"):
        convert(path, tmp_path)
    with pytest.raises(ValueError, match="is read by this"):
        convert(path, path)
    convert(path, tmp_path / "out.h5")
    with pytest.raises(ValueError, match="HDF5 file already"):
        convert(tmp_path / "out.h5", tmp_path / "other.h5")


_HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000000, 1000000000000000000), }"


@pytest.mark.parametrize(
    "header",
    [
        _HUGE,
        _HUGE.replace("0" * 9, "0" * 18),
        _HUGE.replace("1000000000000000000", "8589934592", 1).replace("1000000000000000000", "2147483648"),  # 2**64
        _HUGE[:60],
        "(" * 5000,
        "{[]: 1}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 2)}",
        "{'descr': 'none', 'fortran_order': False, 'shape': (3, 2)}",
        "\x00\x01",
    ],
)
def test_headers_of_no_array(tmp_path, refused, header):
    path = tmp_path / "rows.npy"
    text = header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48))
    assert "rows.npy cannot be read as one array" in refused(path)


@pytest.mark.parametrize("shuffle", [True, False])
def test_sample_weights_in_an_archive_count(tmp_path, shuffle):
    X, weight = np.arange(20.0).reshape(10, 2), np.arange(10) / 2
    path = pack(tmp_path, X=X, y=np.arange(10) % 2, sample_weight=weight, colour=np.arange(10))
    summary = convert(path, tmp_path / "rows.h5", shuffle=shuffle)
    with open_hdf5(summary.path) as data:
        np.testing.assert_array_equal(data.sample_weight[:], data.X.read(0, 10).values[:, 0] / 4)
    assert summary.notes == ("Not used, though as long as the rows: colour.",)


def test_weights_that_do_not_fit(tmp_path, refused):
    path = pack(tmp_path, X=np.ones((3, 2)), y=np.arange(3), sample_weight=np.ones(2))
    assert "the weights of the rows in" in refused(path)
    path = pack(tmp_path, X=np.ones((3, 2)), y=np.arange(3), sample_weight=np.array([1.0, 0.0, np.nan]))
    assert "nan in row 2 is not a weight; a weight is a finite number of at least 0." in refused(path)
