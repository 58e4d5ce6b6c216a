"""Kill commands at random moments, and check that they end with the results of uninterrupted commands.

By hand: python tests/soak/kill_soak.py --kills 100 --seed 0 [--data FOLDER]

A session repeats one command on one data set until the command ends: a run is resumed, a prediction or a conversion is
called again. Meanwhile the command is killed at random moments by SIGKILL, SIGTERM, SIGINT or SIGHUP, sometimes by two
signals, or its disk is full for a while. Its result is compared with that of a command that was not interrupted: models
by the bits of their arrays, files by their bytes. Any other way to end, and any file left over, is a find.

The folder DATA (FASTSVM_DATA by default) may hold cod-rna and mnist; other data are random. The disks are file systems
in memory, if they may be mounted (`unshare -rm`).
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
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fastsvm.jobs.runner import status

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from soak.cases import Case, cases_of

SIGNALS = {"SIGKILL": 0, "SIGTERM": 143, "SIGINT": 130, "SIGHUP": 129}
FULL = "full disk"
_TIMEOUT = 300.0
_MOST_KILLS = 5  # in a session
_DISK = 200 << 20


class Find(Exception):
    """Behaviour that should not occur."""


# --- sessions ------------------------------------------------------------------------------------------------


class Soak:
    """Sessions of some commands, and their finds.

    Parameters
    ----------
    folder : Path
        Working folder.
    seed : int
        Seed of moments and signals.
    mounts : bool
        Whether each session mounts a disk of its own, which is full at times.
    most_kills : int
        Kills in a session at most.
    """

    def __init__(self, folder: Path, seed: int, mounts: bool = False, most_kills: int = _MOST_KILLS) -> None:
        self.folder, self.mounts, self.random, self.most_kills = folder, mounts, random.Random(seed), most_kills
        self.counts: Counter[tuple[str, str]] = Counter()
        self.finds: list[str] = []
        self.known: dict[str, tuple[dict[str, Any], float]] = {}
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
        """Return the result of an uninterrupted command, and how long it works."""
        if case.name not in self.known:
            for _ in range(1 if self.most_kills == 1 else 2):  # the first may compile
                folder = self._disk()
                process, begin = self._started(case, folder), 0.0
                begin = self._wait(case, folder, process)
                _, err = process.communicate(timeout=_TIMEOUT)
                seconds = time.monotonic() - begin
                if process.returncode != 0:
                    raise SystemExit(f"{case.name} fails: {err}")
            self.known[case.name] = case.left(folder), seconds
            self._remove(folder)
        return self.known[case.name]

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
        """Kill a command or fill its disk; return whether it ended well all the same."""
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
            if self.random.random() < 0.2:  # as an impatient user does
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
        """Raise a find if a process ended in a way that the signal or the full disk does not explain."""
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
        """Wait until a command has begun to work; return the time."""
        end = time.monotonic() + _TIMEOUT
        while process.poll() is None and not self._works(case, folder) and time.monotonic() < end:
            time.sleep(0.01)
        return time.monotonic()

    def _works(self, case: Case, folder: Path) -> bool:
        with suppress(FileNotFoundError):  # a file was renamed meanwhile
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
