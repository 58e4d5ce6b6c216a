"""Commands to kill: runs of jobs, predictions and conversions, on floats and on bytes."""

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

import fastsvm
from fastsvm.formats import convert

__all__ = ["Case", "cases_of"]

SVC = 'kind = "svc"\n'
JOBS = {  # words of [model] and [search], rows of floats and bytes
    "svc": (SVC + "C = {C}\ngamma = {gamma}\ntol = 1e-7\n", (3000, 3000)),
    "svc without an intercept": (
        SVC + 'C = {C}\ngamma = {gamma}\ntol = 1e-7\nsolver = "coordinate"\nselection = "random"\n',
        (2500, 2500),
    ),
    "linear": ('kind = "linear"\nC = {linear_C}\ntol = 1e-9\nmax_iter = {linear_iter}\n', (20_000, 4000)),
    "nystroem": ('kind = "nystroem"\ngamma = {gamma}\nn_components = 400\ntol = 1e-4\n', (20_000, 4000)),
    "sgd": ('kind = "sgd"\nmax_iter = {epochs}\ntol = 1e-300\nstandardize = true\n', (20_000, 4000)),
    "search": (
        SVC + "tol = 1e-5\n[search]\nC = [0.1, 1.0, {C}]\ngamma = {gammas}\nfolds = 3\n",
        (1000, 1000),
    ),
}
NUMBERS = {
    "floats": {"C": 100.0, "gamma": 0.5, "linear_C": 1.0, "epochs": 300, "linear_iter": 100_000},
    "bytes": {"C": 10.0, "gamma": 3e-7, "linear_C": 1e-8, "epochs": 60, "linear_iter": 40},
}


class Case(NamedTuple):
    """A command and what is known of it.

    Attributes
    ----------
    name : str
        Of the command and its rows.
    words : callable
        `words(folder)`: how it is called in a folder.
    sign : callable
        `sign(folder)`: something that changes when it begins to work, after it has started.
    left : callable
        `left(folder)`: what it ended with, as arrays or bytes by name.
    leaves : frozenset of str
        Names in the folder at the end.
    """

    name: str
    words: Callable[[Path], list[str]]
    sign: Callable[[Path], Any]
    left: Callable[[Path], dict[str, Any]]
    leaves: frozenset[str]


def rows_of(kind: str, data: Path | None, n: int, n_small: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels, real ones if there are."""
    rng = np.random.default_rng(0)
    source = None if data is None else data / {"floats": "cod-rna", "bytes": "mnist"}[kind]
    if source is not None and source.exists():
        with tempfile.TemporaryDirectory() as folder:
            split = "train" if kind == "bytes" else None
            convert(source, Path(folder) / "rows.h5", split=split, dense=True if kind == "floats" else None)
            with h5py.File(Path(folder) / "rows.h5") as file:
                X, y = file["X"][:n], file["y"][:n]
        return ((X - X.mean(axis=0)) / X.std(axis=0) if kind == "floats" else X), y.astype(np.int64)
    y = rng.integers(0, 3, n_small)
    X = rng.normal(size=(n_small, 20)) + np.eye(20)[y]
    return (X, y) if kind == "floats" else ((128 + 20 * X).clip(0, 255).astype(np.uint8), y)


def written(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(min(len(X), 200), X.shape[1]))
        file["y"] = y
    return path


def job_case(name: str, kind: str, inputs: Path, rows: tuple[np.ndarray, np.ndarray], most: int | None) -> Case:
    """Return a run."""
    text, numbers = JOBS[name]
    n = numbers[kind == "bytes"] if most is None else most
    data = written(inputs / f"{name}-{kind}.h5", rows[0][:n], rows[1][:n])
    job = inputs / f"{name}-{kind}.toml"
    gamma = NUMBERS[kind]["gamma"]
    model, *search = text.format(**NUMBERS[kind], gammas=[gamma, gamma / 4, gamma * 4]).split("[search]")
    search = [f"[search]{part}" for part in search]
    job.write_text(
        f'[data]\ntrain = "{data}"\nholdout = 0.1\n[model]\n{model}{"".join(search)}'
        '[limits]\nmemory = "64MB"\n[checkpoint]\nevery = "50ms"\n'
    )

    def words(folder: Path) -> list[str]:
        if (folder / "run" / "job.json").exists():
            return ["resume", str(folder / "run")]
        return ["run", str(job), "--folder", str(folder / "run")]

    def left(folder: Path) -> dict[str, Any]:
        return arrays_of(fastsvm.load(folder / "run" / "model.fastsvm"))

    def sign(folder: Path) -> Any:
        return {path.stat().st_size for path in (folder / "run").glob("log.jsonl")}

    names = {"run", *(f"run/{one}" for one in ("job.json", "lock", "log.jsonl", "model.fastsvm", "report.html"))}
    names |= {"run/result.json"} | ({"run/search.json"} if search else set())
    return Case(f"{name}, {kind}", words, sign, left, frozenset(names))


def arrays_of(model: Any) -> dict[str, Any]:
    """Return the arrays of a model that say what it predicts."""
    names = ("support_", "support_vectors_", "dual_coef_", "coef_", "intercept_", "classes_")
    found = {name: getattr(model, name, None) for name in names}
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def file_case(name: str, words: Callable[[Path], list[str]], output: str, part: str) -> Case:
    """Return a command that writes a file."""
    left = lambda folder: {"bytes": (folder / output).read_bytes()}  # noqa: E731

    def sign(folder: Path) -> Any:
        return {(path.name, path.stat().st_ino) for path in folder.glob(part)}

    return Case(name, words, sign, left, frozenset({output}))


def cases_of(inputs: Path, data: Path | None, only: Collection[str] = (), small: bool = False) -> list[Case]:
    """Return commands on floats and bytes, all or those of some names; `small` ones take a second."""
    found = []
    for kind in ("floats", "bytes"):
        rows = rows_of(kind, data, 20_000, 6000)
        for name in JOBS:
            if not only or f"{name}, {kind}" in only:
                found.append(job_case(name, kind, inputs, rows, 400 if small else None))
        if not only or f"predict, {kind}" in only:
            found.append(predict_case(kind, inputs, rows, small))
        if only and f"convert, {kind}" not in only:
            continue
        text = inputs / f"{kind}.csv"
        n = 6000 if small or kind == "bytes" else 20_000
        table = np.column_stack([rows[0][:n, :200], rows[1][:n]])
        np.savetxt(text, np.tile(table, (1 if small or kind == "bytes" else 8, 1)), "%.8g", ",")
        found.append(_convert_case(kind, text))
    return found


def _convert_case(kind: str, text: Path) -> Case:
    words = ["convert", "--memory", "1MB", "--force", str(text)]
    return file_case(f"convert, {kind}", lambda folder: [*words, str(folder / "rows.h5")], "rows.h5", "*.part")


def predict_case(kind: str, inputs: Path, rows: tuple[np.ndarray, np.ndarray], small: bool) -> Case:
    """Return the prediction of many rows by a model of kernels."""
    if small:
        model = fastsvm.SGDClassifier(max_iter=2, tol=None, random_state=0).fit(rows[0][:400] / 1.0, rows[1][:400])
    else:
        model = fastsvm.SVC(C=1.0, gamma=NUMBERS[kind]["gamma"], tol=1e-2).fit(rows[0][:800], rows[1][:800])
    fastsvm.save(model, inputs / f"{kind}.model")
    times = 1 if small else 10 if kind == "floats" else 4
    data = written(inputs / f"predict-{kind}.h5", np.tile(rows[0], (times, 1)), np.tile(rows[1], times))
    ending = "csv" if kind == "floats" else "h5"
    words = ["predict", str(inputs / f"{kind}.model"), str(data), "--force", "-o"]
    return file_case(
        f"predict, {kind}", lambda folder: [*words, str(folder / f"out.{ending}")], f"out.{ending}", "*.part.state"
    )
