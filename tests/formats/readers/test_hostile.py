"""Small files that ask for gigabytes are refused before that memory is allocated."""

import gzip
import pickle
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest

MEMORY = 16 << 20
_MOST = 6 * MEMORY  # bytes that Python and NumPy may allocate at once


@pytest.fixture
def frugal(refused):
    """Convert a source that must be refused, without much memory; return the message."""

    def run(source, **options):
        tracemalloc.start()
        try:
            message = refused(source, **({"memory": MEMORY} | options))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < _MOST, f"{peak / 2**20:.0f} MiB were held"
        assert source.name in message
        return message

    return run


# --- CIFAR-10 --------------------------------------------------------------------------------------------


def shared_lists(levels, width):
    """Return nested lists, each of which contains the next one `width` times."""
    found = []
    for _ in range(levels):
        found = [found] * width
    return found


ENCODE = b"c_codecs\nencode\nq\x01X\x00\x00\x10\x00" + b"a" * (1 << 20) + b"q\x02\x86R"
AGAIN = b"h\x01h\x02\x85R"
LONG_NAME, PIXELS = "n" * 100_000, np.zeros((2, 3072), np.uint8)
BATCHES = {  # they are made when they are needed, because some are large
    "lists of shared lists": lambda: pickle.dumps({"data": shared_lists(22, 300), "labels": []}, protocol=2),
    "lists within lists": lambda: pickle.dumps({"data": shared_lists(100, 1), "labels": []}, protocol=2),
    "a memory of two thousand million things": lambda: b"\x80\x02}r\xff\xff\xff\x7f.",
    "the same with words": lambda: b"}p2147483647\n.",
    "one text encoded many times": lambda: b"\x80\x02}(U\x04data](" + ENCODE + AGAIN * 20_000 + b"eu.",
    "a long int": lambda: pickle.dumps({"data": 1 << 2000, "labels": []}, protocol=2),
    "bytes that are not there": lambda: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"a.",
    "labels of one long string": lambda: pickle.dumps({"data": PIXELS, "labels": [LONG_NAME] * 50_000}, protocol=2),
    "labels that are lists": lambda: pickle.dumps({"data": PIXELS, "labels": [[1], [2]]}, protocol=2),
    "very many keys": lambda: pickle.dumps(dict.fromkeys(map(str, range(1000)), [0] * 1000), 2),
    "a type of many fields": lambda: b"\x80\x02}(U\x04datacnumpy\ndtype\n(U\x10(999999999,3)u1 I0\nI1\ntRu.",
    "a type of words": lambda: pickle.dumps({"data": np.array(["a"]), "labels": [0]}, protocol=2),
}


@pytest.mark.parametrize("batch", BATCHES)
def test_pickles(batch, tmp_path, frugal):
    path = tmp_path / "test_batch"
    path.write_bytes(BATCHES[batch]())
    frugal(path)


def test_very_many_things(tmp_path, frugal, choose):
    choose(limits={"steps": 1000})
    path = tmp_path / "test_batch"
    path.write_bytes(b"\x80\x02}(U\x04data](" + b"]" * 1000 + b"eu.")
    assert "1000 steps" in frugal(path)


def test_names_of_classes(tmp_path, frugal):
    names = {"label_names": [LONG_NAME] * 500}
    (tmp_path / "batches.meta").write_bytes(pickle.dumps(names, 2))
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}, 2))
    with pytest.raises(AssertionError, match="test_batch"):  # because the message names the other file
        frugal(path)


def packed(path, *members):
    """Write an archive of headers and contents."""
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for info, content in members:
            stream.write(info.tobuf(tarfile.GNU_FORMAT) + content)
        stream.write(bytes(1024))
    return path


def member(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_name_of_many_bytes_in_an_archive(kind, tmp_path, frugal):
    size = 120 << 20
    path = packed(tmp_path / "cifar.tar.gz", (member("name", size, kind), bytes(size)))
    frugal(path, split="test")


def test_very_many_files_in_an_archive(tmp_path, frugal, choose):
    choose(limits={"entries": 100})
    path = packed(tmp_path / "cifar.tar.gz", *[(member("name", 0), b"")] * 101)
    assert "100 files" in frugal(path, split="test")


def test_a_file_with_holes_in_an_archive(tmp_path, refused):
    info = member("test_batch.bin", 0, tarfile.GNUTYPE_SPARSE)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"77777777777\0"  # the size with its holes
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(gzip.compress(bytes(header) + bytes(1024)))
    assert "lacks test_batch" in refused(path, FileNotFoundError, split="test")


# --- NPZ and NPY -----------------------------------------------------------------------------------------


def header(shape, dtype, version=1, padding=0):
    """Return the header of an array."""
    words = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b" " * padding + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(words)) + words


def archive(path, method=zipfile.ZIP_DEFLATED, **parts):
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as found:
        for name, content in parts.items():
            found.writestr(f"{name}.npy", content)
    return path


BIG = 100 << 20
ARRAYS = {
    "a shape that is not there": lambda: {"X": header((1 << 30, 8), "<f8") + bytes(4096)},
    "a row that is not there": lambda: {"X": header((8, 1 << 30), "<f8") + bytes(4096)},
    "a row that is wider than memory": lambda: {"X": header((1, BIG), "|u1") + bytes(BIG)},
    "a header of 200 MB": lambda: {"X": header((1, 1), "<f8", 2, 2 * BIG) + bytes(8)},
    "a header that is no literal": lambda: {"X": header("(" * 5000, "<f8") + bytes(8)},
    "a negative shape": lambda: {"X": header((-2, -4), "<f8") + bytes(64)},
    "labels that are wider than memory": lambda: {
        "X": header((100, 1), "|u1") + bytes(100),
        "y": header((100,), f"<U{BIG // 400}") + bytes(BIG // 400 * 400),
    },
}


@pytest.mark.parametrize("arrays", ARRAYS)
def test_archives_of_arrays(arrays, tmp_path, frugal):
    frugal(archive(tmp_path / "rows.npz", **ARRAYS[arrays]()))


def test_an_archive_compressed_by_other_means(tmp_path, frugal):
    path = archive(tmp_path / "rows.npz", zipfile.ZIP_LZMA, X=header((9, 1), "|u1") + bytes(9))
    assert "method 14" in frugal(path)


def test_an_archive_that_claims_more_than_it_can_hold(tmp_path, frugal):
    path = archive(tmp_path / "rows.npz", X=header((4096, 8), "<f8") + bytes(4096 * 64))
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\1\2") + 24
    content[place : place + 4] = struct.pack("<I", 1 << 31)
    path.write_bytes(content)
    frugal(path)


def test_narrow_rows_with_wide_labels_are_read_few_at_a_time(tmp_path, converted):
    n, width = 5_000, 1000
    labels = np.array(["a" * width, "b"])[np.arange(n) % 2]
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, X=np.zeros((n, 1), np.uint8), y=labels)
    tracemalloc.start()
    try:
        stored = converted(path, memory=MEMORY)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored.y[0] == labels[0] and len(stored.y) == n
    assert peak < 64 << 20  # the labels take 20 MB, and `stored` holds them too


def test_an_array_whose_row_is_wider_than_memory(tmp_path, frugal):
    path = tmp_path / "rows.npy"
    with open(path, "wb") as file:
        file.write(header((2, 1 << 27), "<f8"))
        file.truncate(file.tell() + (1 << 31))
    assert "raise memory" in frugal(path)


# --- IDX -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 30_000, 30_000), (1 << 31, 28, 28), (1, 1 << 30)])
def test_images_that_are_not_there(shape, tmp_path, frugal):
    path = tmp_path / "images.gz"
    words = b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(gzip.compress(words + bytes(1000)))
    frugal(path, format="idx", label=False)


# --- text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [gzip.compress, lambda content: content])
@pytest.mark.parametrize(("name", "part", "count"), [("rows.csv", b"1,", 20 << 20), ("rows.svm", b"1 1:1", 8 << 20)])
def test_a_line_that_does_not_end(compress, name, part, count, tmp_path, frugal):
    path = tmp_path / name
    path.write_bytes(compress(part * count))
    assert "raise memory" in frugal(path)


def test_a_row_of_quoted_lines_that_does_not_end(tmp_path, frugal):
    path = tmp_path / "rows.csv"
    path.write_bytes(b'1,2\n3,"' + b'\n","' * (4 << 20))
    assert "raise memory" in frugal(path)
