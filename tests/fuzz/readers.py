"""Damaged models and data sets, read in a process of its own, which may crash or hang and is then found out.

A reading ends as "same", with the right predictions; "other", with other ones; "refused", by an error that names the
file; or with what went wrong.
"""

import queue
import random
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

KINDS = (
    "model",
    "sparse model",
    "linear model",
    "old model",
    "old sparse model",
    "dense data",
    "chunked data",
    "CSR data",
)
CHECKED = ("model", "sparse model", "linear model")  # have a checksum
_ADDRESSES = 12 << 30
_SECONDS, _SECONDS_TO_BEGIN = 30, 300  # the second to compile what is not in the cache


def whole(kind, path):
    """Write the file that is damaged."""
    import h5py
    import numpy as np
    from csr_group import write_csr
    from scipy import sparse
    from version_1 import save_version_1

    import fastsvm

    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (40, 6)) * (rng.random((40, 6)) < 0.7) / 4
    y = np.array(["ash", "beech", "oak"])[rng.integers(0, 3, 40)]
    if kind.endswith("model"):
        rows = sparse.csr_matrix(X) if "sparse" in kind else X
        model = fastsvm.LinearSVC(random_state=0) if "linear" in kind else fastsvm.SVC()
        (save_version_1 if "old" in kind else fastsvm.save)(model.fit(rows, y), path)
        return
    with h5py.File(path, "w") as file:
        if kind == "CSR data":
            group, rows = file.create_group("X"), sparse.csr_matrix(X)
            write_csr(group, rows)
        else:
            more = {"chunks": (8, 6), "compression": "gzip", "shuffle": True} if kind == "chunked data" else {}
            file.create_dataset("X", data=X, **more)
        file.create_dataset("y", data=rng.integers(0, 3, 40) if kind == "CSR data" else y.astype(object))
        file["y"].attrs["class_names"] = ["ash", "beech", "oak"]
        file["sample_weight"] = np.ones(40)


def read(kind, path):
    """Return what comes of a file, as bytes."""
    import numpy as np

    import fastsvm
    from fastsvm.jobs.inspection import describe

    if kind.endswith("model"):
        model = fastsvm.load(path)
        rows = np.arange(60).reshape(10, 6) % 7 / 4
        return model.decision_function(rows).tobytes() + repr(model.predict(rows)).encode()
    describe(path)
    with fastsvm.open_hdf5(path) as data:
        parts = [array.tobytes() for _, block in data.X.blocks() for array in block.arrays]
        return b"".join(parts) + repr((data.y, data.sample_weight, data.class_names)).encode()


def outcome(kind, path, wanted):
    """Return how the reading of a file ends."""
    try:
        return "same" if read(kind, path) == wanted else "other"
    except (ValueError, OSError) as error:
        return "refused" if str(path) in str(error) else f"RAW {type(error).__name__} without the path: {error}"
    except Exception as error:
        return f"RAW {type(error).__name__}: {error}"


def _work(kinds, first, last):
    from fuzz.mutations import mutate

    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        known = {}
        for kind in kinds:
            whole(kind, path)
            known[kind] = path.read_bytes(), read(kind, path)
        print("ready", flush=True)
        for number in range(first, last):
            kind, seed = kinds[number % len(kinds)], number // len(kinds)
            content, wanted = known[kind]
            path.write_bytes(mutate(content, random.Random(seed)))
            print(outcome(kind, path, wanted).replace("\n", " "), flush=True)


def watched(kinds, n_seeds, first_seed=0):
    """Yield kind, seed and how it ended, for each kind and seed.

    A process that crashes or hangs is begun anew after the file at which it did.
    """
    number, last = first_seed * len(kinds), (first_seed + n_seeds) * len(kinds)
    while number < last:
        words = [sys.executable, __file__, ",".join(kinds), str(number), str(last)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        lines: queue.Queue = queue.Queue()
        reader = threading.Thread(target=_pass_on, args=(process.stdout, lines), daemon=True)
        reader.start()
        begun = False
        try:
            while number < last:
                line = lines.get(timeout=_SECONDS if begun else _SECONDS_TO_BEGIN)
                if line is None:
                    raise EOFError
                if begun:
                    yield kinds[number % len(kinds)], number // len(kinds), line
                    number += 1
                begun = True
        except (queue.Empty, EOFError) as error:
            process.kill()
            code = process.wait()
            if not begun:
                raise RuntimeError(f"No process for {kinds} could begin, exit code {code}.") from error
            how = f"CRASH {code}" if isinstance(error, EOFError) else f"HANG of {_SECONDS} s"
            yield kinds[number % len(kinds)], number // len(kinds), how
            number += 1
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()


def _pass_on(stream, lines):
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def is_good(kind, how):
    """Return whether a reading may end so: values in HDF5 have no checksum, and may be others."""
    return how in ("same", "refused") or (how == "other" and kind not in CHECKED)


if __name__ == "__main__":
    _work(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]))
