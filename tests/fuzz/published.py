"""Small data sets in the formats that are converted, as bytes."""

import io
import pickle
import tarfile

import numpy as np

__all__ = ["cifar_bytes", "cifar_pickle", "csv", "idx", "images", "npy", "npz", "numbers", "svmlight", "tar"]


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return np.round(rng.normal(size=(25, 5)), 3), np.arange(25) % 3


def csv() -> bytes:
    X, y = numbers()
    rows = [",".join([*map(str, x), ["ant", "bee", "cat"][k]]) for x, k in zip(X, y, strict=True)]
    return "\n".join(["a,b,c,d,e,kind", *rows, ""]).encode()


def svmlight() -> bytes:
    X, y = numbers()
    return "".join(
        f"{k} " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(x)) + "\n" for x, k in zip(X, y, strict=True)
    ).encode()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(compressed: bool) -> bytes:
    file = io.BytesIO()
    X, y = numbers()
    (np.savez_compressed if compressed else np.savez)(file, X=X, y=y)
    return file.getvalue()


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.integers(0, 256, (12, 4, 4)).astype(np.uint8), (np.arange(12) % 10).astype(np.uint8)


def cifar_bytes() -> bytes:
    rng = np.random.default_rng(6)
    return b"".join(bytes([k]) + rng.bytes(3072) for k in range(3))


def cifar_pickle() -> bytes:
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 256, (3, 3072)).astype(np.uint8)
    return pickle.dumps(
        {b"data": rows, b"labels": [0, 1, 2], b"batch_label": b"x", b"filenames": [b"a"] * 3}, protocol=2
    )


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for k in range(1, 6):
            content = cifar_bytes()
            info = tarfile.TarInfo(f"cifar-10-batches-bin/data_batch_{k}.bin")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()
