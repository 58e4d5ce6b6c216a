import gzip
import io
import pickle
import pickletools
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fastsvm.formats import convert, recognise

NAMES = [f"class{k}" for k in range(10)]
BATCHES = [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]


def batch(seed: int, n: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 3072)).astype(np.uint8), rng.integers(0, 10, n)


def python2_pickle(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """Write a batch as Python 2's cPickle and NumPy 1 did: byte strings, numpy.core."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    raw = pixels.tobytes()
    data = b"".join([
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\nt", text(b"b"), b"tR",
        b"(I1\n(I%d\nI%d\nt" % pixels.shape,
        b"cnumpy\ndtype\n(", text(b"u1"), b"I0\nI1\ntR(I3\n", text(b"|"), b"NNNI-1\nI-1\nI0\ntb",
        b"I00\n", b"T" + len(raw).to_bytes(4, "little") + raw, b"tb",
    ])  # fmt: skip
    numbers = b"](" + b"".join(b"K%c" % label for label in labels) + b"e"
    items = text(b"data") + data + text(b"labels") + numbers + text(b"batch_label") + text(b"one of 6")
    return b"\x80\x02(" + items + b"d."


def python3_pickle(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """Write a batch as Python 3 does with protocol 2, where _codecs.encode makes bytes."""
    return pickle.dumps({b"data": pixels, b"labels": labels.tolist()}, protocol=2)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for seed, name in enumerate(BATCHES):
        pixels, labels = batch(seed)
        (folder / f"{name}.bin").write_bytes(np.column_stack([labels.astype(np.uint8), pixels]).tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")
    return folder


@pytest.fixture(params=[python2_pickle, python3_pickle])
def python(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for seed, name in enumerate(BATCHES):
        (folder / name).write_bytes(request.param(*batch(seed)))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [name.encode() for name in NAMES]}, protocol=2))
    return folder


def archive(folder: Path, names: list[str] | None = None) -> Path:
    """Pack a folder, members in another order than that of the batches and below an outlandish path."""
    path = folder.with_name(folder.name + ".tar.gz")
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as packed:
        for name in names or sorted((file.name for file in folder.iterdir()), reverse=True):
            packed.add(folder / name, f"../../{folder.name}/{name}")
    return path


def expected(split: str) -> tuple[np.ndarray, np.ndarray]:
    parts = [batch(seed) for seed in (range(5) if split == "train" else [5])]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def check(stored, split: str) -> None:
    X, y = expected(split)
    assert stored.X.dtype == np.uint8 and stored.y.dtype == np.int64
    np.testing.assert_array_equal(stored.X, X)
    np.testing.assert_array_equal(stored.y, y)
    assert stored.class_names == NAMES


@pytest.mark.parametrize("split", ["train", "test"])
def test_binary_folder_and_archive(binary, converted, split):
    check(converted(binary, split=split), split)
    check(converted(archive(binary), split=split), split)


@pytest.mark.parametrize("split", ["train", "test"])
def test_python_folder_and_archive(python, converted, split):
    check(converted(python, split=split), split)
    check(converted(archive(python), split=split), split)
    assert not (python.parent.parent / python.name).exists()


def test_the_pickle_of_python_2_is_what_it_says():
    pickletools.dis(python2_pickle(*batch(0)), out=io.StringIO())


def test_one_batch(binary, python, converted):
    for path in (binary / "data_batch_2.bin", python / "data_batch_2"):
        stored = converted(path)
        np.testing.assert_array_equal(stored.X, batch(1)[0])
        assert stored.class_names == NAMES


def test_all_ways_give_the_same_order(binary, python, converted):
    one, other = (converted(path, split="train", shuffle=True, seed=3) for path in (binary, archive(python)))
    np.testing.assert_array_equal(one.X, other.X)
    assert not np.array_equal(one.X, expected("train")[0])


def test_split_is_asked_for(binary, refused):
    assert "split='train'" in refused(binary)
    assert "one batch" in refused(binary / "test_batch.bin", split="test")
    assert "'train' or 'test'" in refused(binary, split="valid")


def test_missing_batches_are_named(binary, refused):
    (binary / "data_batch_3.bin").unlink()
    assert "data_batch_3.bin" in refused(binary, FileNotFoundError, split="train")


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_malicious_pickle_runs_nothing(python, refused):
    mark = python.parent / "mark"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        evil = pickle.dumps({b"data": Malicious(mark), b"labels": []}, protocol=protocol)
        (python / "test_batch").write_bytes(evil)
        assert "must hold 'data'" in refused(python, split="test")
    assert not mark.exists()


def test_arrays_of_objects_are_refused(python, refused):
    pixels = np.array([[{}]], dtype=object)
    (python / "test_batch").write_bytes(pickle.dumps({b"data": pixels, b"labels": [0]}, protocol=2))
    assert "must hold 'data'" in refused(python, split="test")


def test_arrays_by_columns_are_refused(python, refused):
    pixels, labels = batch(0)
    (python / "test_batch").write_bytes(python3_pickle(np.asfortranarray(pixels), labels))
    assert "must hold 'data'" in refused(python, split="test")


@pytest.mark.parametrize(
    "content", [{}, {b"data": np.zeros((2, 9), np.uint8)}, {b"data": np.zeros((2, 3072), np.uint8)}, [1]]
)
def test_unfit_pickles_are_refused(python, refused, content):
    (python / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    assert "test_batch" in refused(python, split="test")


@pytest.mark.parametrize("keep", [1, 2, 40, 3000, 3072, 3074, 6000, 3073 * 4 - 1])
def test_truncated_binary_batch(binary, refused, keep):
    path = binary / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:keep])
    for source, split in ((binary, "train"), (path, None), (archive(binary), "train")):
        message = refused(source, split=split)
        assert "data_batch_4.bin" in message and f"{keep} bytes" in message


@pytest.mark.parametrize("part", np.linspace(0.0, 0.999, 12))
def test_truncated_pickle(python, refused, part):
    path = python / "test_batch"
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    assert "test_batch" in refused(python, split="test")


@pytest.mark.parametrize("part", np.linspace(0.01, 0.99, 12))
def test_truncated_archive(binary, refused, part):
    path = archive(binary)
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    assert path.name in refused(path, split="train")


def test_damaged_archive(binary, refused):
    path = archive(binary)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    assert path.name in refused(path, split="train")


def test_archive_with_a_batch_twice(binary, refused):
    names = [file.name for file in binary.iterdir()]
    assert "two files named" in refused(archive(binary, [*names, "test_batch.bin"]), split="test")


def test_archive_with_a_link_for_a_batch(tmp_path, refused):
    path = tmp_path / "links.tar.gz"
    link = tarfile.TarInfo("test_batch.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as packed:
        packed.addfile(link)
    assert "lacks test_batch.bin" in refused(path, FileNotFoundError, split="test")


def test_label_out_of_range(binary, refused):
    path = binary / "data_batch_1.bin"
    content = bytearray(path.read_bytes())
    content[3073 * 2] = 11
    path.write_bytes(content)
    assert "record 2 has the label 11" in refused(path)


def test_recognised(binary, python, tmp_path):
    for path in (binary, python, archive(binary), binary / "test_batch.bin", python / "test_batch"):
        assert recognise(path) == "cifar10"
    other = tmp_path / "other.gz"
    other.write_bytes(gzip.compress(b"nothing known"))
    with pytest.raises(ValueError, match=r"cifar10.*\n.*idx"):
        recognise(other)


@pytest.mark.realdata
def test_real_cifar10(real_data, tmp_path, load):
    source = real_data / "cifar-10-batches-bin"
    summary = convert(source, tmp_path / "train.h5", split="train", shuffle=False)
    assert (summary.n_samples, summary.n_features, summary.n_classes) == (50_000, 3072, 10)
    stored = load(summary.path)
    raw = np.concatenate([np.fromfile(source / f"{name}.bin", np.uint8) for name in BATCHES[:5]]).reshape(-1, 3073)
    assert np.array_equal(stored.y, raw[:, 0]) and np.array_equal(stored.X, raw[:, 1:])
    assert np.bincount(stored.y).tolist() == [5000] * 10
    assert summary.class_names[0] == "airplane"
    one, other = (
        load(convert(source, tmp_path / f"{name}.h5", split="test", **options).path)
        for name, options in (("one", {}), ("other", {"memory": 5 << 20}))
    )
    assert np.array_equal(one.y, other.y) and np.array_equal(one.X, other.X)
    assert np.bincount(one.y).tolist() == [1000] * 10
