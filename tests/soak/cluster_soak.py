"""Kill and stop workers of a cluster at random moments of fits, and check that each fit ends with the same bits.

By hand: python tests/soak/cluster_soak.py --kills 40 --seed 0

The cluster has two processes and a nanny for each, which starts it again. A fit is repeated, of files that the workers
read or of blocks. Meanwhile a worker, or both at once, is killed by SIGKILL, or stopped for a while by SIGSTOP. Another
model, an error, or a fit that does not end is a find.
"""

import argparse
import faulthandler
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

import dask
import dask.array as da
import h5py
import numpy as np
from distributed import Client, LocalCluster

from fastsvm.dask import LinearSVC

LONGEST = 300  # seconds of a fit
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
    """

    def __init__(self, client: Client, folder: Path, seed: int) -> None:
        self.client, self.random = client, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.finds: list[str] = []
        rng = np.random.default_rng(0)
        X = rng.integers(0, 100, (30_000, 300), dtype=np.uint8)
        y = (X[:, :60].reshape(-1, 3, 20).sum(axis=2) + 60 * rng.normal(size=(30_000, 3))).argmax(axis=1)
        self.path = folder / "rows.h5"
        with h5py.File(self.path, "w") as file:
            file["X"], file["y"] = X, y
        rows, labels = da.from_array(X, chunks=(5000, 300)), da.from_array(y, chunks=5000)
        self.data = {"files": (self.path,), "blocks": (rows, labels)}
        self.wanted = {name: self.fit(*given) for name, given in self.data.items()}
        begin = time.monotonic()
        self.fit(self.path)
        self.seconds = min(10.0, time.monotonic() - begin)

    def fit(self, *given) -> np.ndarray:
        model = LinearSVC("hinge", C=1e-5, n_shards=3, tol=3e-3, random_state=0, client=self.client).fit(*given)
        return np.append(model.coef_, [model.objective_, model.dual_objective_, model.n_iter_])

    def run(self, kills: int) -> None:
        """Repeat the fits until workers were disturbed so many times."""
        while self.counts.total() < kills:
            for name in self.data:
                self.session(name)

    def session(self, name: str) -> None:
        """Fit once, with one to three faults."""
        self.client.wait_for_workers(2, timeout=LONGEST)
        happened: list[str] = []
        ended = threading.Event()
        disturber = threading.Thread(target=self._disturb, args=(happened, ended))
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        disturber.start()
        try:
            found = self.fit(*self.data[name])
            if not np.array_equal(found, self.wanted[name]):
                raise AssertionError("another model")
            print(f"{name}: {', '.join(happened) or 'nothing'}: as wanted", flush=True)
        except Exception as error:
            self.finds.append(f"{name} after {happened}: {type(error).__name__}: {error}")
            print("FIND", self.finds[-1], flush=True)
        finally:
            ended.set()
            disturber.join()
            faulthandler.cancel_dump_traceback_later()

    def _disturb(self, happened: list[str], ended: threading.Event) -> None:
        for _ in range(self.random.randint(1, 3)):
            if ended.wait(self.random.uniform(0, self.seconds)):
                return
            what = self.random.choices(list(FAULTS), list(FAULTS.values()))[0]
            pids = self.pids()
            if not pids or ended.is_set():
                continue
            for pid in pids if what == "both are killed" else [self.random.choice(pids)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP if what == "one is stopped" else signal.SIGKILL)
                    if what == "one is stopped":
                        ended.wait(self.random.uniform(0.1, 2))
                        os.kill(pid, signal.SIGCONT)
            self.counts[what] += 1
            happened.append(what)

    def pids(self) -> list[int]:
        """Return the processes of the workers that have come; one that ends before it came is not started again."""
        here = {worker["id"] for worker in self.client.scheduler_info()["workers"].values()}
        found = [nanny.pid for name, nanny in self.client.cluster.workers.items() if name in here]
        return [pid for pid in found if pid]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40, help="after how many faults to end (default: 40)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    often = {"distributed.scheduler.allowed-failures": 100}  # a task may meet more killed workers than Dask allows
    with (
        dask.config.set(often),
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        soak = Soak(client, Path(folder), options.seed)
        print(f"a fit takes {soak.seconds:.1f} s", flush=True)
        soak.run(options.kills)
    print(dict(soak.counts), f"{len(soak.finds)} finds")
    return bool(soak.finds)


if __name__ == "__main__":
    sys.exit(main())
