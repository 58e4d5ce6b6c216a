"""Commands that are killed at random moments, and end with what they would have ended with.

By hand: python tests/soak/kill_soak.py --kills 100 --seed 0 [--data FOLDER]

Each session repeats one command on one set of rows until it ends: a run is begun and resumed, a prediction or a
conversion is called again. Between, it is killed at a random moment of its work by SIGKILL, SIGTERM, SIGINT or SIGHUP,
at times by a second signal too, or its disk is filled and has room again later. What it ends with is compared with
that of a process that nothing happened to: models by the bits of their arrays, files by their bytes. Whatever else ends
a command, or is left over, is a find.

The folder DATA (FASTSVM_DATA by default) may hold cod-rna and mnist; rows are drawn where it does not. Disks are file
systems in memory, where they may be mounted (`unshare -rm`).
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

import fastsvm
from fastsvm.formats import convert
from fastsvm.jobs.runner import status

SIGNALS = {"SIGKILL": 0, "SIGTERM": 143, "SIGINT": 130, "SIGHUP": 129}
FULL = "full disk"
_TIMEOUT = 300.0
_MOST_KILLS = 5  # in a session
_DISK = 200 << 20

SVC = 'kind = "svc"\n'
JOBS = {  # words of [model] and [search], rows of floats and bytes
    "svc": (SVC + "C = {C}\ngamma = {gamma}\ntol = 1e-7\n", (3000, 3000)),
    "svc without an offset": (
        SVC + 'C = {C}\ngamma = {gamma}\ntol = 1e-7\nsolver = "coordinate"\nselection = "random"\n',
        (2500, 2500),
    ),
    "linear": ('kind = "linear"\nC = {linear_C}\ntol = 1e-9\nmax_iter = {linear_iter}\n', (20_000, 4000)),
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


class Find(Exception):
    """Something that should not be."""


# --- commands ------------------------------------------------------------------------------------------------


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
        return ["run", str(job), "--out", str(folder / "run")]

    def left(folder: Path) -> dict[str, Any]:
        return arrays_of(fastsvm.load(folder / "run" / "model.h5"))

    def sign(folder: Path) -> Any:
        return {path.stat().st_size for path in (folder / "run").glob("log.jsonl")}

    names = {"run", *(f"run/{one}" for one in ("job.json", "lock", "log.jsonl", "model.h5", "report.html"))}
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
        convert_words = lambda folder, text=text: ["convert", str(text), str(folder / "rows.h5"), "--memory", "1MB"]  # noqa: E731
        found.append(file_case(f"convert, {kind}", convert_words, "rows.h5", "*.part"))
    return found


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
    words = ["predict", str(inputs / f"{kind}.model"), str(data), "-o"]
    return file_case(
        f"predict, {kind}", lambda folder: [*words, str(folder / f"out.{ending}")], f"out.{ending}", "*.part.json"
    )


# --- sessions ------------------------------------------------------------------------------------------------


class Soak:
    """Sessions of some commands, and what came of them.

    Parameters
    ----------
    folder : Path
        Where they work.
    seed : int
        Of moments and signals.
    mounts : bool
        Whether a session may have a disk for itself, which then is filled at times.
    most_kills : int
        In a session.
    """

    def __init__(self, folder: Path, seed: int, mounts: bool = False, most_kills: int = _MOST_KILLS) -> None:
        self.folder, self.mounts, self.random, self.most_kills = folder, mounts, random.Random(seed), most_kills
        self.counts: Counter[tuple[str, str]] = Counter()
        self.finds: list[str] = []
        self._wanted: dict[str, tuple[dict[str, Any], float]] = {}
        self._n, self._sign = 0, None

    def run(self, cases: list[Case], kills: int) -> None:
        """Kill commands, one case after another, until so many were killed."""
        while sum(self.counts.values()) < kills:
            for case in cases:
                if sum(self.counts.values()) < kills:
                    self._found(case)

    def _found(self, case: Case) -> None:
        try:
            self.session(case)
        except Find as find:
            self.finds.append(f"{case.name}: {find}")
            print(f"FIND {case.name}: {find}", flush=True)

    def wanted(self, case: Case) -> tuple[dict[str, Any], float]:
        """Return what a command ends with that nothing happens to, and how long it works."""
        if case.name not in self._wanted:
            for _ in range(1 if self.most_kills == 1 else 2):  # the first may compile
                folder = self._disk()
                process, begin = self._started(case, folder), 0.0
                begin = self._wait(case, folder, process)
                _, err = process.communicate(timeout=_TIMEOUT)
                seconds = time.monotonic() - begin
                if process.returncode != 0:
                    raise SystemExit(f"{case.name} fails: {err}")
            self._wanted[case.name] = case.left(folder), seconds
            self._remove(folder)
        return self._wanted[case.name]

    def session(self, case: Case) -> None:
        """Kill a command some times, let it end, and compare."""
        wanted, seconds = self.wanted(case)
        folder, happened = self._disk(), []
        for _ in range(self.random.randint(1, self.most_kills)):
            what = self.random.choice([*SIGNALS, *([FULL, FULL] if self.mounts else [])])
            ended = self._attempt(case, folder, what, seconds, happened)
            if ended:
                break
        process = self._started(case, folder)
        _, err = process.communicate(timeout=_TIMEOUT)
        if process.returncode != 0:
            raise Find(f"after {happened} it ends with {process.returncode}: {err[-500:]}")
        self._compare(case, folder, wanted, happened)
        print(f"{case.name}: {', '.join(happened) or 'nothing'}: as wanted", flush=True)
        self._remove(folder)

    def _attempt(self, case: Case, folder: Path, what: str, seconds: float, happened: list[str]) -> bool:
        """Let one thing happen to a command; return whether it ended well all the same."""
        process = self._started(case, folder)
        self._wait(case, folder, process)
        time.sleep(self.random.uniform(0, seconds))
        running, ballast = process.poll() is None, folder / "ballast"
        if running and what == FULL:
            fill(ballast, self.random.choice([0, 0, 1 << 12, 1 << 15, 1 << 18]))
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.random.uniform(0.2, seconds + 1))
            ballast.unlink()
        elif running:
            process.send_signal(getattr(signal, what))
            if self.random.random() < 0.2:  # who is impatient
                time.sleep(self.random.uniform(0, 0.3))
                process.send_signal(self.random.choice([getattr(signal, what), signal.SIGKILL]))
                what = f"{what} twice"
        _, err = process.communicate(timeout=_TIMEOUT)
        if running:
            self.counts[case.name, what] += 1
            happened.append(what)
        self._check_end(process.returncode, what, err, running)
        run = folder / "run"
        if (run / "job.json").exists() and status(run)["state"] == "running":
            raise Find(f"after {happened} its status is that it is running")
        return process.returncode == 0

    def _check_end(self, code: int, what: str, err: str, running: bool) -> None:
        """Raise a find if a process ended in another way than by what happened to it."""
        if code == 0:
            return
        name = what.removesuffix(" twice")
        allowed = {1} if name == FULL else {SIGNALS[name], -getattr(signal, name), -signal.SIGKILL}
        full = name == FULL and "No space left on device" in err
        if not running or code not in allowed or "Traceback" in err or (name == FULL and not full):
            raise Find(f"{what} ended it with {code}: {err[-1500:]}")

    def _compare(self, case: Case, folder: Path, wanted: dict[str, Any], happened: list[str]) -> None:
        found = case.left(folder)
        if found.keys() != wanted.keys():
            raise Find(f"after {happened} it ends with {sorted(found)}, not {sorted(wanted)}")
        for name, value in wanted.items():
            if not (found[name] == value if isinstance(value, bytes) else np.array_equal(found[name], value)):
                raise Find(f"after {happened} {name} is another: {difference(found[name], value)}")
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        if names != case.leaves:
            raise Find(f"after {happened} it leaves {sorted(names ^ case.leaves)}")

    def _started(self, case: Case, folder: Path) -> subprocess.Popen:
        self._sign = case.sign(folder)
        command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "fastsvm", *case.words(folder)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _wait(self, case: Case, folder: Path, process: subprocess.Popen) -> float:
        """Wait until a command works; return when that was."""
        end = time.monotonic() + _TIMEOUT
        while process.poll() is None and not self._works(case, folder) and time.monotonic() < end:
            time.sleep(0.01)
        return time.monotonic()

    def _works(self, case: Case, folder: Path) -> bool:
        with suppress(FileNotFoundError):  # of what is renamed as it is looked at
            return case.sign(folder) != self._sign
        return True

    def _disk(self) -> Path:
        self._n += 1
        folder = self.folder / str(self._n)
        folder.mkdir()
        if self.mounts:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", str(folder)], check=True)
        return folder

    def _remove(self, folder: Path) -> None:
        if self.mounts:
            subprocess.run(["umount", str(folder)], check=True)


def fill(path: Path, room: int) -> None:
    """Fill the file system of a file but for some bytes."""
    free = os.statvfs(path.parent)
    with open(path, "wb", buffering=0) as file:
        try:
            for _ in range(max(0, (free.f_bavail * free.f_frsize - room) // 4096)):
                file.write(bytes(4096))
        except OSError:
            pass


def difference(found: Any, wanted: Any) -> str:
    if isinstance(wanted, bytes):
        return f"{len(found)} bytes, not {len(wanted)}"
    if found.shape != wanted.shape:
        return f"its shape is {found.shape}, not {wanted.shape}"
    return f"by up to {np.abs(found - wanted).max()} of {np.abs(wanted).max()}"


# --- by hand -------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="after how many to end (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=os.environ.get("FASTSVM_DATA"))
    parser.add_argument("--only", default="", help="cases whose name begins with this")
    parser.add_argument("--mounted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.mounted:
        allowed = subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
        if allowed:
            words = [sys.executable, *sys.argv, "--mounted"]
            os.execvp("unshare", ["unshare", "-rm", *words])
        print("no disk is filled, for none may be mounted here (unshare -rm)")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as folder:
        inputs, work = Path(folder) / "inputs", Path(folder) / "work"
        inputs.mkdir()
        work.mkdir()
        soak = Soak(work, options.seed, options.mounted)
        cases = [case for case in cases_of(inputs, options.data) if case.name.startswith(options.only)]
        try:
            for case in cases:
                print(f"{case.name}: works {soak.wanted(case)[1]:.1f} s", flush=True)
            soak.run(cases, options.kills)
        finally:
            if options.mounted:
                subprocess.run(f"umount -l {work}/*", shell=True, capture_output=True)
    print(json.dumps({f"{name}; {what}": n for (name, what), n in sorted(soak.counts.items())}, indent=1))
    print(f"{sum(soak.counts.values())} kills, {len(soak.finds)} finds")
    return bool(soak.finds)


if __name__ == "__main__":
    sys.exit(main())
