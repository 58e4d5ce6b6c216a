"""A fit from a file in a process of its own: `python -m bench.gallery.shared.fit_from_file FILE MEMORY EPOCHS`.

It prints JSON. A fit to some samples before the curve begins compiles and starts threads.
"""

import json
import sys
import tempfile
from pathlib import Path

import h5py

from bench.workers.memory_curve import MemoryCurve
from fastsvm import SGDClassifier, open_hdf5

_FEW = 2_000


def main() -> None:
    """Fit to a file within a memory budget, and print the memory curve and the number of passes."""
    path, memory, epochs = sys.argv[1:]
    model = SGDClassifier(loss="softmax", alpha=0.01, standardize=True, max_iter=int(epochs), tol=None, random_state=0)
    with open_hdf5(path) as data, tempfile.TemporaryDirectory() as folder:
        _warm_up(model, data, Path(folder, "few.h5"))
        model.set_params(memory=memory if memory == "auto" else int(memory))
        data.X.reads.nbytes = 0
        with MemoryCurve() as curve:
            model.fit(data)
        read = data.X.reads.nbytes / data.X.nbytes
        times, added = zip(*curve.points, strict=True)
        print(json.dumps({"times": times, "added_mb": added, "falls": curve.falls, "passes": read}))


def _warm_up(model: SGDClassifier, data: h5py.File, path: Path) -> None:
    rows = data.X.read(0, _FEW).user_array()
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=rows, chunks=(100, rows.shape[1]))
        file["y"] = data.y[:_FEW]
    with open_hdf5(path) as few:
        model.set_params(memory=rows.nbytes).fit(few)  # streamed too


if __name__ == "__main__":
    main()
