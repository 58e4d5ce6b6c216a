"""Files of each kind that the package reads, whole ones to be damaged, and what reading each of them means.

A reader returns a word for what it found. Of files that the package writes, the word is a digest of all that matters,
and damage may not change it; of other files any well-formed content is as good as the original.
"""

import bz2
import gzip
import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from csr_group import write_csr
from fuzz import published
from fuzz.damage import changed
from scipy import sparse

import fastsvm
from fastsvm import tuning
from fastsvm.formats import convert
from fastsvm.jobs import predict
from fastsvm.jobs.models import describe
from fastsvm.jobs.training import checkpoints
from fastsvm.jobs.training.job_file import read_job

__all__ = ["MODELS", "SPECIMENS", "Specimen", "digest", "training"]

_BOUND = {"job": "abc", "training data": {"bytes": 10}}
_MEMORY = 32 << 20  # of conversions
_PACKED = {"chunks": (8, 4), "compression": "gzip", "shuffle": True}
_OF_VALUES = re.compile(
    r"Input X contains|^sample_weight contains|Negative values in sample_weight|overflow|number of classes"
)
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
        setattr(value, part, changed(getattr(value, part), rng))
    else:
        value = changed(value, rng)
    setattr(model, name, value)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or sparse.issparse(value)


# --- data in HDF5 ----------------------------------------------------------------------------------------


def _make_data(folder: Path, csr: bool, **storage: Any) -> None:
    X, y = training()
    with h5py.File(folder / "data.h5", "w") as file:
        if csr:
            rows = sparse.csr_array(np.where(X > 0, X, 0))
            group = file.create_group("X")
            write_csr(group, rows)
        else:
            file.create_dataset("X", data=X, **storage)
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
    checkpoints.write(folder / "checkpoint-00000001.fastsvm", _tree(), _BOUND)


def _read_checkpoint(folder: Path) -> str:
    tree = checkpoints.read(folder / "checkpoint-00000001.fastsvm", _BOUND)
    return digest(*tree.values())


def _make_predictions(folder: Path, name: str) -> None:
    """Leave predictions that were cut short after two blocks."""
    X, y = training()
    fastsvm.save(fastsvm.LinearSVC(random_state=0).fit(X, y), folder / "model.h5")
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"] = np.random.default_rng(3).normal(size=(5 * _ROWS, 4))
    append = predict.PredictionFile.append
    count = []

    def cut_short(self: Any, *given: Any) -> None:
        if len(count) == 2:
            raise KeyboardInterrupt
        count.append(1)
        append(self, *given)

    try:
        predict.PredictionFile.append = cut_short
        with tuning.tuned(tuning.changed({"jobs": {"block_rows": _ROWS}})):
            predict.predict(folder / "model.h5", folder / "rows.h5", folder / name)
    except KeyboardInterrupt:
        pass
    finally:
        predict.PredictionFile.append = append


def _read_predictions(folder: Path, name: str) -> str:
    with tuning.tuned(tuning.changed({"jobs": {"block_rows": _ROWS}})):
        predict.predict(folder / "model.h5", folder / "rows.h5", folder / name)
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
    images, labels = published.images()
    return {
        f"train-images-idx3-ubyte{ending}": packed(published.idx(images)),
        f"train-labels-idx1-ubyte{ending}": packed(published.idx(labels)),
    }


SPECIMENS: dict[str, Specimen] = {
    **{f"model {name}": Specimen(_make_model(name), ("model.h5",), _read_model, exact=True)
       for name in MODELS},
    "forged": Specimen(_make_forged, (), _read_forged),
    "data": Specimen(lambda folder: _make_data(folder, csr=False), ("data.h5",), _read_data),
    "data packed": Specimen(lambda folder: _make_data(folder, csr=False, **_PACKED), ("data.h5",), _read_data),
    "data csr": Specimen(lambda folder: _make_data(folder, csr=True), ("data.h5",), _read_data),
    "fit": Specimen(lambda folder: _make_data(folder, csr=False, **_PACKED), ("data.h5",), _read_fit),
    "fit csr": Specimen(lambda folder: _make_data(folder, csr=True), ("data.h5",), _read_fit),
    "checkpoint": Specimen(_make_checkpoint, ("checkpoint-00000001.fastsvm",), _read_checkpoint, exact=True),
    "predictions csv": Specimen(
        lambda folder: _make_predictions(folder, "out.csv"), ("out.csv.part", "out.csv.part.state"),
        lambda folder: _read_predictions(folder, "out.csv"), exact=True,
    ),
    "predictions hdf5": Specimen(
        lambda folder: _make_predictions(folder, "out.h5"), ("out.h5.part", "out.h5.part.state"),
        lambda folder: _read_predictions(folder, "out.h5"), exact=True,
    ),
    "job": Specimen(_make_job, ("job.toml",), _read_job),
    "csv": _of_format("rows.csv", published.csv),
    "csv.gz": _of_format("rows.csv.gz", lambda: gzip.compress(published.csv())),
    "svmlight": _of_format("rows.svm", published.svmlight, format="svmlight"),
    "svmlight.bz2": _of_format("rows.svm.bz2", lambda: bz2.compress(published.svmlight()), format="svmlight"),
    "svmlight dense": _of_format("rows.svm", published.svmlight, format="svmlight", dense=True),
    "npy": Specimen(
        _writer(lambda: dict(zip(("X.npy", "y.npy"), map(published.npy, published.numbers()), strict=True))),
        ("X.npy", "y.npy"),
        _converter("X.npy", label="y.npy"),
    ),
    "npz": _of_format("rows.npz", lambda: published.npz(compressed=False)),
    "npz compressed": _of_format("rows.npz", lambda: published.npz(compressed=True)),
    "idx": Specimen(
        _writer(lambda: _idx_files("", bytes)), ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        _converter("train-images-idx3-ubyte"),
    ),
    "idx.gz": Specimen(
        _writer(lambda: _idx_files(".gz", gzip.compress)),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"), _converter("train-images-idx3-ubyte.gz"),
    ),
    "cifar binary": _of_format("data_batch_1.bin", published.cifar_bytes),
    "cifar pickle": _of_format("data_batch_1", published.cifar_pickle),
    "cifar archive": _of_format("cifar-10-binary.tar.gz", published.tar, split="train"),
}  # fmt: skip
"""Kinds of files by name."""
