"""Files of each kind that the package reads, whole ones to be damaged, and what reading each of them means.

A reader returns a word for what it found. Of files that the package writes, the word is a digest of all that matters,
and damage may not change it; of other files any well-formed content is as good as the original.
"""

import bz2
import gzip
import hashlib
import io
import json
import pickle
import random
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from fuzz.mutations import mutate
from scipy import sparse

import fastsvm
from fastsvm.formats import convert
from fastsvm.jobs import checkpoint, scoring
from fastsvm.jobs.inspection import describe
from fastsvm.jobs.job_file import read_job

__all__ = ["MODELS", "SPECIMENS", "Specimen", "damaged", "digest", "training"]

_BOUND = {"job": "abc", "training data": {"bytes": 10}}
_MEMORY = 32 << 20  # of conversions
_OF_VALUES = re.compile(r"Input X contains|^sample_weight contains|Negative values in sample_weight|overflow|number of classes")
_ROWS = 64  # of a block of predictions, so that few rows have several


class Specimen(NamedTuple):
    """A kind of file.

    Attributes
    ----------
    make : callable
        Writes whole files to a folder.
    targets : tuple of str
        Those of them that are damaged, one at a time.
    read : callable
        Reads what is in a folder and returns the word for it.
    exact : bool
        Whether damage may not change the word.
    """

    make: Callable[[Path], None]
    targets: tuple[str, ...]
    read: Callable[[Path], str]
    exact: bool = False


def digest(*values: Any) -> str:
    found = hashlib.blake2b(digest_size=12)
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind not in "OU":
            found.update(f"{value.dtype}{value.shape}".encode())
            found.update(np.ascontiguousarray(value).tobytes())
        else:
            found.update(repr(value.tolist() if isinstance(value, np.ndarray) else value).encode())
    return found.hexdigest()


# --- models ----------------------------------------------------------------------------------------------


def training(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.arange(40) % classes
    return rng.normal(size=(40, 4)) + np.eye(classes, 4)[y], y


MODELS = ("svc", "csr", "bytes", "linear", "svr", "sgd")


def _models() -> dict[str, Any]:
    X, y = training()
    two = y > 0
    names = np.array(["ant", "bee", "cät"])[y]
    return {
        "svc": fastsvm.SVC(C=3.0, class_weight={0: 2.0}).fit(X, y),
        "csr": fastsvm.SVC(kernel="poly").fit(sparse.csr_array(np.where(X > 0, X, 0)), names),
        "bytes": fastsvm.SVC(gamma=1e-3).fit(np.clip(60 * X + 100, 0, 255).astype(np.uint8), y),
        "linear": fastsvm.LinearSVC(random_state=0, standardize=True).fit(X, two),
        "svr": fastsvm.LinearSVR(random_state=0).fit(X, X[:, 0]),
        "sgd": fastsvm.SGDClassifier(random_state=0, loss="softmax", max_iter=3, tol=None).fit(X, names),
    }


def _make_model(name: str) -> Callable[[Path], None]:
    return lambda folder: fastsvm.save(_models()[name], folder / "model.h5")


def _read_model(folder: Path) -> str:
    model = fastsvm.load(folder / "model.h5")
    X = training()[0][:9]
    said = [model.predict(X)] + ([model.decision_function(X)] if hasattr(model, "decision_function") else [])
    attributes = {name: value for name, value in vars(model).items() if name.endswith("_") and name != "history_"}
    words = [value if not sparse.issparse(value) else value.toarray() for _, value in sorted(attributes.items())]
    return digest(*said, sorted(model.get_params().items(), key=str), *words)


def _make_forged(folder: Path) -> None:
    for name, model in _models().items():
        fastsvm.save(model, folder / f"{name}.h5")
    (folder / "forgery.json").write_text(json.dumps({"model": "svc", "seed": None}))


def _read_forged(folder: Path) -> str:
    """Save a model with one attribute changed, so that all checksums are right, then load it and predict."""
    words = json.loads((folder / "forgery.json").read_text())
    model = fastsvm.load(folder / f"{words['model']}.h5")
    if words["seed"] is not None:
        _forge(model, random.Random(words["seed"]))
    try:
        fastsvm.save(model, folder / "model.h5")
    except (ValueError, TypeError):
        return "not saved"
    again = fastsvm.load(folder / "model.h5")
    said = again.predict(training()[0][:9])
    if said.shape != (9,):
        raise RuntimeError(f"predictions of 9 rows have the shape {said.shape}")
    return "read"


def _forge(model: Any, rng: random.Random) -> None:
    """Change one fitted attribute: its length, type, order or values."""
    names = [name for name, value in vars(model).items() if name != "history_" and _is_array(value)]
    name = rng.choice(sorted(names))
    value = getattr(model, name)
    if sparse.issparse(value):
        value = value.copy()
        part = rng.choice(["indptr", "indices", "data"])
        setattr(value, part, _other(getattr(value, part), rng))
    else:
        value = _other(value, rng)
    setattr(model, name, value)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or sparse.issparse(value)


def _other(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return the array with something changed."""
    array = np.array(array)
    kind = rng.randrange(7)
    if kind == 0:
        return array[..., : rng.randrange(array.shape[-1])] if array.ndim and array.shape[-1] else array[None]
    if kind == 1:
        return np.concatenate([array, array[:1]]) if array.ndim else np.array([array, array])
    if kind == 2:
        return array.reshape(-1, *array.shape)
    if kind == 3:
        return array.astype(rng.choice(["f4", "i8", "u1", "S4"])) if array.dtype.kind in "fiu" else array[::-1]
    if kind == 4 and array.ndim:
        return array[:0]
    if array.size and array.dtype.kind in "fiu":
        flat = array.reshape(-1).copy()
        real = [np.nan, np.inf, 1e30, -1.0, 0.0]
        whole = [0, -1, 1, 2**31 - 1, -(2**31), 2**40]
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice(real if array.dtype.kind == "f" else whole)).astype(array.dtype)
        return flat.reshape(array.shape)
    return array[::-1] if array.ndim else array


# --- data in HDF5 ----------------------------------------------------------------------------------------


def _make_data(folder: Path, csr: bool) -> None:
    X, y = training()
    with h5py.File(folder / "data.h5", "w") as file:
        if csr:
            rows = sparse.csr_array(np.where(X > 0, X, 0))
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", rows.shape
            group["data"], group["indices"], group["indptr"] = rows.data, rows.indices, rows.indptr
        else:
            file.create_dataset("X", data=X, chunks=(8, 4), compression="gzip", shuffle=True)
        file["y"] = y if csr else np.array(["ant", "bee", "cat"], object)[y]
        if csr:
            file["y"].attrs.create("class_names", ["a", "b", "c"], dtype=h5py.string_dtype())
        file["sample_weight"] = np.ones(len(y))


def _read_data(folder: Path) -> str:
    path = folder / "data.h5"
    describe(path)
    with fastsvm.open_hdf5(path) as data:
        n = 0
        for _, block in data.X.blocks():
            n += block.shape[0]
        if n != len(data) or (data.y is not None and len(data.y) != n):
            raise RuntimeError(f"{n} rows were read, {len(data)} were promised")
        data.X.take(np.arange(min(n, 3))).in_memory()
    return "read"


def _read_fit(folder: Path) -> str:
    """Fit to the rows; what is said of values, as of those of an array, need not name the file."""
    with fastsvm.open_hdf5(folder / "data.h5") as data:
        try:
            fastsvm.SGDClassifier(max_iter=2, tol=None, random_state=0, memory="200MB").fit(data).predict(data)
        except ValueError as error:
            if not _OF_VALUES.search(str(error)):
                raise
            return "refused"
    return "fitted"


# --- runs ------------------------------------------------------------------------------------------------


def _tree() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {"alpha": rng.normal(size=300), "words": np.array(["ant", "bee"]), "records": [(1, 2.5, None)], "n": 3}


def _make_checkpoint(folder: Path) -> None:
    checkpoint.write(folder / "checkpoint-00000001.h5", _tree(), _BOUND)


def _read_checkpoint(folder: Path) -> str:
    tree = checkpoint.read(folder / "checkpoint-00000001.h5", _BOUND)
    return digest(*tree.values())


def _make_predictions(folder: Path, name: str) -> None:
    """Leave predictions that were cut short after two blocks."""
    X, y = training()
    fastsvm.save(fastsvm.LinearSVC(random_state=0).fit(X, y), folder / "model.h5")
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"] = np.random.default_rng(3).normal(size=(5 * _ROWS, 4))
    usual, append = scoring._ROWS, scoring.PredictionFile.append
    count = []

    def cut_short(self: Any, *given: Any) -> None:
        if len(count) == 2:
            raise KeyboardInterrupt
        count.append(1)
        append(self, *given)

    try:
        scoring._ROWS, scoring.PredictionFile.append = _ROWS, cut_short
        scoring.predict(folder / "model.h5", folder / "rows.h5", folder / name)
    except KeyboardInterrupt:
        pass
    finally:
        scoring._ROWS, scoring.PredictionFile.append = usual, append


def _read_predictions(folder: Path, name: str) -> str:
    usual = scoring._ROWS
    try:
        scoring._ROWS = _ROWS
        scoring.predict(folder / "model.h5", folder / "rows.h5", folder / name)
    finally:
        scoring._ROWS = usual
    return digest((folder / name).read_bytes())


_JOB = """
[data]
train = "rows.h5"   # relative
holdout = 0.1
[model]
kind = "svc"
C = 1e2
kernel = "poly"
class_weight = "balanced"
[search]
C = [1.0, 10.0]
folds = 3
[limits]
memory = "512MB"
time = "8h"
threads = 2
[checkpoint]
every = "30s"
[output]
report = false
"""


def _make_job(folder: Path) -> None:
    (folder / "job.toml").write_text(_JOB)


def _read_job(folder: Path) -> str:
    read_job(folder / "job.toml")
    return "read"


# --- formats ---------------------------------------------------------------------------------------------


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return np.round(rng.normal(size=(25, 5)), 3), np.arange(25) % 3


def _csv() -> bytes:
    X, y = _numbers()
    rows = [",".join([*map(str, x), ["ant", "bee", "cat"][k]]) for x, k in zip(X, y, strict=True)]
    return "\n".join(["a,b,c,d,e,kind", *rows, ""]).encode()


def _svmlight() -> bytes:
    X, y = _numbers()
    return "".join(f"{k} " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(x)) + "\n" for x, k in zip(X, y, strict=True)).encode()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(compressed: bool) -> bytes:
    file = io.BytesIO()
    X, y = _numbers()
    (np.savez_compressed if compressed else np.savez)(file, X=X, y=y)
    return file.getvalue()


def _idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def _images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.integers(0, 256, (12, 4, 4)).astype(np.uint8), (np.arange(12) % 10).astype(np.uint8)


def _cifar_bytes() -> bytes:
    rng = np.random.default_rng(6)
    return b"".join(bytes([k]) + rng.bytes(3072) for k in range(3))


def _cifar_pickle() -> bytes:
    rng = np.random.default_rng(7)
    rows = rng.integers(0, 256, (3, 3072)).astype(np.uint8)
    return pickle.dumps({b"data": rows, b"labels": [0, 1, 2], b"batch_label": b"x", b"filenames": [b"a"] * 3}, protocol=2)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for k in range(1, 6):
            content = _cifar_bytes()
            info = tarfile.TarInfo(f"cifar-10-batches-bin/data_batch_{k}.bin")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _writer(files: Callable[[], dict[str, bytes]]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name, content in files().items():
            (folder / name).write_bytes(content)

    return make


def _converter(name: str, **options: Any) -> Callable[[Path], str]:
    def read(folder: Path) -> str:
        given = {key: (folder / value if key == "label" else value) for key, value in options.items()}
        found = convert(folder / name, folder / "converted.h5", memory=_MEMORY, **given)
        with fastsvm.open_hdf5(folder / "converted.h5") as data:
            n = sum(block.shape[0] for _, block in data.X.blocks())
            if n != found.n_samples or (data.y is not None and len(data.y) != n):
                raise RuntimeError(f"{n} rows were written, {found.n_samples} were promised")
        return "converted"

    return read


def _of_format(name: str, content: Callable[[], bytes], **options: Any) -> Specimen:
    return Specimen(_writer(lambda: {name: content()}), (name,), _converter(name, **options))


def _idx_files(ending: str, packed: Callable[[bytes], bytes]) -> dict[str, bytes]:
    images, labels = _images()
    return {
        f"train-images-idx3-ubyte{ending}": packed(_idx(images)),
        f"train-labels-idx1-ubyte{ending}": packed(_idx(labels)),
    }


SPECIMENS: dict[str, Specimen] = {
    **{f"model {name}": Specimen(_make_model(name), ("model.h5",), _read_model, exact=True)
       for name in MODELS},
    "forged": Specimen(_make_forged, (), _read_forged),
    "data": Specimen(lambda folder: _make_data(folder, csr=False), ("data.h5",), _read_data),
    "data csr": Specimen(lambda folder: _make_data(folder, csr=True), ("data.h5",), _read_data),
    "fit": Specimen(lambda folder: _make_data(folder, csr=False), ("data.h5",), _read_fit),
    "fit csr": Specimen(lambda folder: _make_data(folder, csr=True), ("data.h5",), _read_fit),
    "checkpoint": Specimen(_make_checkpoint, ("checkpoint-00000001.h5",), _read_checkpoint, exact=True),
    "predictions csv": Specimen(
        lambda folder: _make_predictions(folder, "out.csv"), ("out.csv.part", "out.csv.part.json"),
        lambda folder: _read_predictions(folder, "out.csv"), exact=True,
    ),
    "predictions hdf5": Specimen(
        lambda folder: _make_predictions(folder, "out.h5"), ("out.h5.part", "out.h5.part.json"),
        lambda folder: _read_predictions(folder, "out.h5"), exact=True,
    ),
    "job": Specimen(_make_job, ("job.toml",), _read_job),
    "csv": _of_format("rows.csv", _csv),
    "csv.gz": _of_format("rows.csv.gz", lambda: gzip.compress(_csv())),
    "svmlight": _of_format("rows.svm", _svmlight, format="svmlight"),
    "svmlight.bz2": _of_format("rows.svm.bz2", lambda: bz2.compress(_svmlight()), format="svmlight"),
    "svmlight dense": _of_format("rows.svm", _svmlight, format="svmlight", dense=True),
    "npy": Specimen(
        _writer(lambda: {"X.npy": _npy(_numbers()[0]), "y.npy": _npy(_numbers()[1])}), ("X.npy", "y.npy"),
        _converter("X.npy", label="y.npy"),
    ),
    "npz": _of_format("rows.npz", lambda: _npz(compressed=False)),
    "npz compressed": _of_format("rows.npz", lambda: _npz(compressed=True)),
    "idx": Specimen(
        _writer(lambda: _idx_files("", bytes)), ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        _converter("train-images-idx3-ubyte"),
    ),
    "idx.gz": Specimen(
        _writer(lambda: _idx_files(".gz", gzip.compress)),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"), _converter("train-images-idx3-ubyte.gz"),
    ),
    "cifar binary": _of_format("data_batch_1.bin", _cifar_bytes),
    "cifar pickle": _of_format("data_batch_1", _cifar_pickle),
    "cifar archive": _of_format("cifar-10-binary.tar.gz", _tar, split="train"),
}  # fmt: skip
"""Kinds of files by name."""


# --- damage ----------------------------------------------------------------------------------------------


def damaged(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return a file's bytes after damage, half of the time to what they hold when they are unpacked."""
    if rng.random() < 0.5:
        return mutate(data, rng)
    try:
        if name.endswith(".tar.gz"):
            return gzip.compress(mutate(gzip.decompress(data), rng), 1)
        if name.endswith(".gz"):
            return gzip.compress(mutate(gzip.decompress(data), rng))
        if name.endswith(".bz2"):
            return bz2.compress(mutate(bz2.decompress(data), rng))
        if data[:4] == b"PK\3\4":
            return _damaged_zip(data, rng)
        if data[:8] == b"\x89HDF\r\n\x1a\n":
            return _damaged_hdf5(data, rng)
    except Exception:  # of HDF5 or an archive that cannot hold what it was to hold
        pass
    return mutate(data, rng)


def _damaged_zip(data: bytes, rng: random.Random) -> bytes:
    """Damage a member, whose checksum is then right; or rename it, leave it out or double it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        stored = archive.infolist()[0].compress_type
    at = rng.randrange(len(members))
    name, content = members[at]
    kind = rng.random()
    if kind < 0.7:
        members[at] = name, mutate(content, rng)
    elif kind < 0.8:
        members[at] = mutate(name.encode(), rng).decode("latin-1"), content
    elif kind < 0.9:
        del members[at]
    else:
        members[at] = name, _npy(rng.choice([np.zeros(0), np.zeros((0, 3)), np.array("x"), np.zeros((2, 2, 2)), np.array(3)]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", stored) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def _damaged_hdf5(data: bytes, rng: random.Random) -> bytes:
    """Change what an HDF5 file holds by HDF5 itself: as a forger does, or another program by mistake."""
    file_like = io.BytesIO(data)
    with h5py.File(file_like, "r+") as file:
        nodes: list[str] = []
        file.visit(nodes.append)
        where = rng.choice([*nodes, "/"])
        node = file[where]
        if rng.random() < 0.3 and len(node.attrs):
            _change_attribute(node, rng)
        elif where != "/":
            _change_node(file, where, rng)
        else:
            file["extra"] = rng.choice([1.0, "x"])
    return file_like.getvalue()


def _change_attribute(node: Any, rng: random.Random) -> None:
    name = rng.choice(sorted(node.attrs))
    value = node.attrs[name]
    kind = rng.randrange(4)
    if kind == 0:
        del node.attrs[name]
    elif kind == 1 and isinstance(value, str) and value.startswith("{"):
        node.attrs[name] = _changed_json(value, rng)
    elif isinstance(value, str):
        node.attrs[name] = mutate(value.encode(), rng).decode("latin-1").replace("\0", "")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        node.attrs[name] = _other(value, rng)
    else:
        node.attrs[name] = rng.choice([0, -1, 1.5, "x"])


def _changed_json(text: str, rng: random.Random) -> str:
    """Change a value somewhere in a JSON object."""
    words = json.loads(text)
    place: Any = words
    while True:
        key = rng.choice(sorted(place) if isinstance(place, dict) else range(len(place))) if place else None
        if key is None:
            break
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        if isinstance(place, dict) and rng.random() < 0.3:
            del place[key]
        else:
            place[key] = rng.choice([None, -1, 0, 1.5, "x", [], {}, True, 10**30, "\ud800"])
        break
    return json.dumps(words)


def _change_node(file: h5py.File, where: str, rng: random.Random) -> None:
    node = file[where]
    array = node[()] if isinstance(node, h5py.Dataset) else None
    attributes = dict(node.attrs)
    kind = rng.randrange(6)
    del file[where]
    if kind == 0:
        return
    if kind == 1:
        file[where] = h5py.SoftLink(rng.choice(["/nowhere", "/", where]))
        return
    if kind == 2:
        file[where] = np.dtype("f8") if rng.random() < 0.5 else h5py.Empty("f4")
        return
    if kind == 3:
        file.create_group(where)
    elif isinstance(array, np.ndarray) and array.dtype.kind in "iufb":
        file[where] = _other(array, rng)
    else:
        file[where] = rng.choice([1.0, "x"])
    if rng.random() < 0.8:
        for name, value in attributes.items():
            file[where].attrs[name] = value
