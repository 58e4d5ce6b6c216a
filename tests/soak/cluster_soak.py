"""Kill and stop workers of a cluster at random moments of fits, and check that each fit ends with the same bits.

By hand: python tests/soak/cluster_soak.py --kills 40 --seed 0

The cluster has two processes and a nanny for each, which starts it again. A nanny gives up where a process ends while
it is starting; then another is started. Fits are repeated, of files that the workers read or of blocks. Meanwhile a
worker, or both at once, is killed by SIGKILL, or stopped for a while by SIGSTOP. Another model, an error, or a fit that
does not end is a find. The summary is written as JSON.
"""

import argparse
import faulthandler
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
from distributed import Client, LocalCluster, Nanny, Status

from fastsvm.dask import LinearSVC, NystroemSVC, SGDClassifier
from fastsvm.dask.shards import ClusterShards
from fastsvm.tuning import changed, tuned

LONGEST = 600  # seconds of a fit
PATIENCE = 60  # looks for workers, of 5 s each, after which a fit says that there are none
BUSY = 2.0  # seconds within which a worker does something, or it is killed while it does nothing
WATCHED = 2.0  # seconds between looks whether workers are missing
FAULTS = {"one is killed": 3, "both are killed": 1, "one is stopped": 1}  # with their weights


class Soak:
    """Fits on a cluster whose workers are disturbed.

    Parameters
    ----------
    client : Client
        Of a cluster of two processes.
    folder : Path
        Receives the data.
    seed : int
        Seed of moments and faults.

    Attributes
    ----------
    kills, stops : int
        Workers that were killed and stopped.
    nannies : set of str
        All that were seen.
    moments : Counter
        Kills by the names of the tasks of the worker, or else of the question to its sessions.
    fits : Counter
        Fits that ended with the same bits, by what was learned.
    finds : list of str
        What should not have happened.
    """

    def __init__(self, client: Client, folder: Path, seed: int) -> None:
        self.client, self.random = client, random.Random(seed)
        self.kills = self.stops = 0
        self.nannies: set[str] = set()
        self.moments: Counter[str] = Counter()
        self.fits: Counter[str] = Counter()
        self.finds: list[str] = []
        self.asked = ""  # what the client asks sessions just now
        rng = np.random.default_rng(0)
        X = rng.integers(0, 100, (30_000, 300), dtype=np.uint8)
        y = (X[:, :60].reshape(-1, 3, 20).sum(axis=2) + 60 * rng.normal(size=(30_000, 3))).argmax(axis=1)
        path = folder / "rows.h5"
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, y
        blocks = da.from_array(X, chunks=(5000, 300)), da.from_array(y, chunks=5000)
        common: dict[str, Any] = {"n_shards": 3, "random_state": 0, "client": client}
        hinge = LinearSVC("hinge", C=1e-5, tol=3e-3, **common)
        landmarks = NystroemSVC(C=1e-2, gamma=1e-6, n_components=64, tol=3e-3, **common)
        sgd = SGDClassifier(max_iter=30, tol=None, **common)
        self.cases = {
            "hinge, files": (hinge, (path,)),
            "hinge, blocks": (hinge, blocks),
            "landmarks, files": (landmarks, (path,)),
            "SGD, blocks": (sgd, blocks),
        }
        self.wanted = {name: self.fit(name) for name in self.cases}
        self.seconds = {name: self._seconds_of(name) for name in self.cases}

    def fit(self, name: str) -> np.ndarray:
        """Return what a fit found."""
        estimator, given = self.cases[name]
        model = estimator.fit(*given)
        return np.concatenate((model.coef_.ravel(), model.intercept_, [model.objective_, model.n_iter_]))

    def _seconds_of(self, name: str) -> float:
        begin = time.monotonic()
        self.fit(name)
        return min(10.0, time.monotonic() - begin)

    def run(self, kills: int) -> None:
        """Repeat the fits until so many workers were killed."""
        ended = threading.Event()
        keeper = threading.Thread(target=self._keep_workers, args=(ended,))
        keeper.start()
        try:
            while self.kills < kills:
                for name in self.cases:
                    self.session(name)
        finally:
            ended.set()
            keeper.join()

    def summary(self) -> dict[str, Any]:
        """Return what happened."""
        return {
            "kills": self.kills,
            "stops": self.stops,
            "nannies_that_gave_up": len(self.nannies) - 2,
            "fits_with_the_same_bits": dict(self.fits),
            "kills_while": dict(self.moments.most_common()),
            "finds": self.finds,
        }

    def session(self, name: str) -> None:
        """Fit once, with one to three faults."""
        self.client.wait_for_workers(2, timeout=LONGEST)
        happened: list[str] = []
        ended = threading.Event()
        disturber = threading.Thread(target=self._disturb, args=(name, happened, ended))
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        disturber.start()
        try:
            found = self.fit(name)
            if not np.array_equal(found, self.wanted[name]):
                raise AssertionError("another model")
            self.fits[name] += 1
            print(f"{name}: {', '.join(happened) or 'nothing'}: as wanted; {self.kills} kills", flush=True)
        except Exception as error:
            self.finds.append(f"{name} after {happened}: {type(error).__name__}: {error}")
            print("FIND", self.finds[-1], flush=True)
        finally:
            ended.set()
            disturber.join()
            faulthandler.cancel_dump_traceback_later()

    def _disturb(self, name: str, happened: list[str], ended: threading.Event) -> None:
        for _ in range(self.random.randint(1, 3)):
            if ended.wait(self.random.uniform(0, self.seconds[name])):
                return
            what = self.random.choices(list(FAULTS), list(FAULTS.values()))[0]
            here = self._here()
            if not here or ended.is_set():
                continue
            for nanny in here if what == "both are killed" else [self.random.choice(here)]:
                with suppress(ProcessLookupError, TypeError):  # it has ended by itself
                    if what == "one is stopped":
                        self._stop(nanny.pid, ended)
                    else:
                        self._kill(nanny, happened)

    def _stop(self, pid: int, ended: threading.Event) -> None:
        os.kill(pid, signal.SIGSTOP)
        ended.wait(self.random.uniform(0.1, 2))
        os.kill(pid, signal.SIGCONT)
        self.stops += 1

    def _kill(self, nanny: Nanny, happened: list[str]) -> None:
        moment = self._moment(nanny)
        os.kill(nanny.pid, signal.SIGKILL)
        self.kills += 1
        self.moments[moment] += 1
        happened.append(moment)

    def _moment(self, nanny: Nanny) -> str:
        """Return what a worker is doing. Three times of four a moment is waited for at which it does something."""
        late = time.monotonic() + (BUSY if self.random.random() < 0.75 else 0)
        while True:
            steps = self.client.run_on_scheduler(_tasks_of, nanny.worker_address)
            found = " and ".join(steps) or (f"answering: {self.asked}" if self.asked else "")
            if found or time.monotonic() > late:
                return found or "between"
            time.sleep(0.01)

    def _here(self) -> list[Nanny]:
        """Return the nannies of workers that have started and come."""
        known = self.client.scheduler_info()["workers"]
        nannies: list[Nanny] = list(self.client.cluster.workers.values())
        return [one for one in nannies if one.status is Status.running and one.pid and one.worker_address in known]

    def _keep_workers(self, ended: threading.Event) -> None:
        """Start a nanny in place of each that has given up."""
        cluster = self.client.cluster
        while not ended.wait(WATCHED):
            for name, nanny in list(cluster.workers.items()):
                self.nannies.add(nanny.id)
                if nanny.status in (Status.failed, Status.closed):
                    cluster.workers.pop(name, None)
            cluster.scale(2)

    def listen(self) -> None:
        """Note from now on what the client asks sessions."""
        usual = ClusterShards._ask

        def heard(shards: ClusterShards, question: str, *given: Any) -> Any:
            self.asked = question
            try:
                return usual(shards, question, *given)
            finally:
                self.asked = ""

        ClusterShards._ask = heard


def _tasks_of(address: str, dask_scheduler: Any) -> list[str]:
    """Return the steps of the tasks that a worker has to do, which their keys name."""
    worker = dask_scheduler.workers.get(address)
    keys = [] if worker is None else [str(task.key) for task in worker.processing]
    return sorted({key.split("-")[1] if key.startswith("svm-") else "block" for key in keys})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40, help="after how many killed workers to end (default: 40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file that receives the summary as JSON")
    options = parser.parse_args()
    patient = {
        "distributed.scheduler.allowed-failures": 100,  # a task may meet more killed workers than Dask allows
        "distributed.deploy.lost-worker-timeout": "10 minutes",  # a busy machine starts processes slowly
    }
    with (
        tuned(changed({"cluster": {"looks": PATIENCE}})),
        dask.config.set(patient),
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        soak = Soak(client, Path(folder), options.seed)
        print("a fit takes", {name: round(seconds, 1) for name, seconds in soak.seconds.items()}, flush=True)
        soak.listen()
        soak.run(options.kills)
        summary = json.dumps({"seed": options.seed, **soak.summary()}, indent=1)
        print(summary, flush=True)
        if options.out:
            options.out.write_text(summary + "\n", encoding="utf-8")
    return bool(soak.finds)


if __name__ == "__main__":
    sys.exit(main())
