"""A file that is larger than the memory budget of the fit, and the memory of the process during the fit."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from matplotlib import pyplot as plt

from bench import recipes
from bench.gallery.shared.style import COLOURS

TITLE = "A file larger than memory"

_ROOT = Path(__file__).parents[2]
_THREADS = 2  # each holds some samples as floats, which counts for the small quick budget
_EPOCHS = 3


class Plan(NamedTuple):
    """Blocks of images and classes, their description, and the memory budget of the fit."""

    blocks: Iterator[tuple[np.ndarray, np.ndarray]]
    words: str
    memory_mb: int


def draw(out: Path, quick: bool) -> str:
    """Write a file, fit to it with and without a budget, and draw the memory of both processes."""
    real = "FASTSVM_DATA" in os.environ and not quick
    plan = Plan(_varied_cifar(), "images of CIFAR-10, shifted and mirrored", 256) if real else _made_up(quick)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "images.h5")
        n = _write(path, plan.blocks)
        size_mb = path.stat().st_size / 1e6
        budgets = {f"memory={plan.memory_mb}MB": str(plan.memory_mb * 10**6), 'memory="auto"': "auto"}
        with ThreadPoolExecutor(len(budgets) if quick else 1) as at_once:  # together they are slower than each alone
            fits = dict(zip(budgets, at_once.map(partial(_fit, path), budgets.values()), strict=True))
    figure, ax = plt.subplots(figsize=(12, 5.6))
    for colour, (name, fit) in zip(COLOURS[1::-1], fits.items(), strict=True):
        ax.plot(fit["times"], fit["added_mb"], color=colour, linewidth=2, label=name)
    ax.axhline(plan.memory_mb, color=COLOURS[1], linestyle="--", label=f"the budget, {plan.memory_mb} MB")
    ax.axhline(size_mb, color="0.2", linestyle=":", label=f"the file, {size_mb:,.0f} MB")
    ax.set(xlabel="time since the fit began (s)", ylabel="memory added to the process (MB)", ylim=(0, None))
    ax.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(out)
    plt.close(figure)
    return _words(plan, n, size_mb, *fits.values())


def _write(path: Path, blocks: Iterator[tuple[np.ndarray, np.ndarray]]) -> int:
    """Write blocks of images, of which only one is in memory. Return the number of images."""
    with h5py.File(path, "w") as file:
        for X, y in blocks:
            if "X" not in file:
                d = X.shape[1]
                file.create_dataset("X", (0, d), X.dtype, maxshape=(None, d), chunks=(256, d))
                file.create_dataset("y", (0,), "i8", maxshape=(None,), chunks=(65_536,))
            for name, values in (("X", X), ("y", y)):
                file[name].resize(len(file[name]) + len(values), axis=0)
                file[name][-len(values) :] = values
        return len(file["y"])


def _varied_cifar() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the 50,000 images in eight variants: shifted and mirrored."""
    data = recipes.cifar10(50_000)
    images = data.X.reshape(-1, 3, 32, 32)
    for shift in ((0, 0), (0, 2), (2, 0), (-2, -2)):
        for step in (1, -1):
            yield np.roll(images, shift, axis=(2, 3))[..., ::step].reshape(len(images), -1), data.y


def _made_up(quick: bool) -> Plan:
    """Return images of 16 × 16 pixels: the pattern of a class plus noise.

    If quick, they are few, and their pixels are floats: the fit runs code that other pictures have compiled.
    """
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 64, (10, 768), dtype=np.uint8)

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(6 if quick else 100):
            y = rng.integers(0, 10, 2_000 if quick else 16_000)
            X = patterns[y] + rng.integers(0, 192, (len(y), 768), dtype=np.uint8)
            yield X.astype(np.float64) if quick else X, y

    return Plan(blocks(), "synthetic images", 56 if quick else 256)


def _fit(path: Path, memory: str) -> dict:
    """Return what a fresh process reports of its fit."""
    words = [sys.executable, "-m", "bench.gallery.shared.fit_from_file", str(path), memory, str(_EPOCHS)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": str(_THREADS), "OMP_NUM_THREADS": str(_THREADS)}
    done = subprocess.run(words, cwd=_ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"The fit from {path} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def _words(plan: Plan, n: int, size_mb: float, bounded: dict, free: dict) -> str:
    peaks = [np.nanmax(fit["added_mb"], initial=-np.inf) for fit in (bounded, free)]
    told = (
        f"{n:,} {plan.words}, {size_mb:,.0f} MB in an HDF5 file that was made for this picture, and a linear model "
        f"(softmax, {_EPOCHS} epochs) by SGDClassifier. With a budget of {plan.memory_mb} MB it never holds all "
        "samples. It reads a window of them, learns from it in random order, and reads the next window meanwhile. "
        "The curve rises when the windows are filled for the first time, and then stays level, however large the file "
        f"is: at most {peaks[0]:,.0f} MB were added to the process. The file was read {bounded['passes']:.1f} times: "
        f"{_EPOCHS} epochs, once for the scale of the features, and once for the objective at the end.\n\n"
        'With memory="auto", which is half of the free memory of the machine, the same fit adds '
        f"{peaks[1]:,.0f} MB: samples are read into memory once if they fit. The curves show the memory of a fresh "
        "process above its memory before the fit."
    )
    if np.isneginf(peaks[0]):
        return "This system does not report the memory of a process. On Linux and macOS there are curves here."
    return told if bounded["falls"] else told + " This system reports only the peak, so no curve falls."
