"""
A file larger than memory
=========================

A fit from a file takes no more memory than it is given. With a budget it reads a window of the samples, learns from
it in random order, and reads the next window meanwhile. The curves are the memory of a fresh process above its memory
before the fit.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from matplotlib import pyplot as plt

import bench

# %%
# The file: images of 16 × 16 pixels, the pattern of a class plus noise. Only one block of them is in memory.

folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "images.h5")
rng = np.random.default_rng(0)
patterns = rng.integers(0, 64, (10, 768))
with h5py.File(path, "w") as file:
    X = file.create_dataset("X", (12_000, 768), "float64", chunks=(256, 768))
    y = file.create_dataset("y", (12_000,), "int64")
    for start in range(0, 12_000, 2_000):
        rows = slice(start, start + 2_000)
        y[rows] = kinds = rng.integers(0, 10, 2_000)
        X[rows] = patterns[kinds] + rng.integers(0, 192, (2_000, 768))
size_mb = path.stat().st_size / 1e6

# %%
# The fit, in a process of its own. A fit to some samples before the curve begins compiles and starts threads.

SCRIPT = """
import json, sys
import h5py
from bench.workers.memory_curve import MemoryCurve
from fastsvm import SGDClassifier, open_hdf5

path, memory = sys.argv[1:]
model = SGDClassifier(loss="softmax", alpha=0.01, standardize=True, max_iter=3, tol=None, random_state=0)
with open_hdf5(path) as data:
    with h5py.File(path + ".few", "w") as file:
        file.create_dataset("X", data=data.X.read(0, 2000).user_array(), chunks=(100, 768))
        file["y"] = data.y[:2000]
    with open_hdf5(path + ".few") as few:
        model.set_params(memory=12_000_000).fit(few)
    model.set_params(memory=memory if memory == "auto" else int(memory))
    with MemoryCurve() as curve:
        model.fit(data)
print(json.dumps(curve.points))
"""


def curve(memory):
    """Return times and added memory of a fit with two threads."""
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "PYTHONPATH": str(Path(bench.__file__).parents[1])}
    words = [sys.executable, "-c", SCRIPT, str(path), str(memory)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout)).T


figure, ax = plt.subplots(figsize=(9, 4.8))
ax.plot(*curve("auto"), label='memory="auto"')
ax.plot(*curve(56_000_000), label="memory=56MB")
ax.axhline(56, color="C1", linestyle="--", label="the budget, 56 MB")
ax.axhline(size_mb, color="0.2", linestyle=":", label=f"the file, {size_mb:.0f} MB")
ax.set(xlabel="time since the fit began (s)", ylabel="memory added to the process (MB)", ylim=(0, None))
ax.grid(alpha=0.3)
ax.legend(loc="center right")
plt.show()
folder.cleanup()

# %%
# With the budget the curve rises when the windows are filled for the first time, and then stays level, however large
# the file is. The file is read five times: three epochs, once for the scale of the features, and once for the
# objective at the end. With `memory="auto"`, which is half of the free memory of the machine, samples are read into
# memory once if they fit.
