"""The picture of the demo: time, memory, deformed images, and test images."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["draw"]

_OURS, _THEIRS = "tab:blue", "lightgray"


def draw(
    path: Path,
    report: Any,
    training: tuple[np.ndarray, np.ndarray, int],
    test: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> str:
    """Write the picture and return its file, "" without matplotlib.

    `training` holds the originals, the deformed images, and their side; `test` the test images, their digits, and the
    predicted digits.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.3))[0]
    _draw_bars(left, report)
    above, below = right.subfigures(2, 1, squeeze=False)[:, 0]
    _draw_deformations(above, *training)
    _draw_test(below, test, training[2])
    figure.savefig(path, dpi=120)
    return str(path)


def _draw_bars(figure: Any, report: Any) -> None:
    time, memory = figure.subplots(2, 1)
    seconds = [report.fit_seconds, report.reference_seconds]
    bars = time.barh(["fastsvm", "scikit-learn"], seconds, color=(_OURS, _THEIRS))
    time.bar_label(bars, fmt="%.2f s", padding=3)
    title = f"Fit of {report.n_training:,} images: {report.times_faster:.0f} times faster, same answer"
    time.set(title=title, xlim=(0, 1.25 * max(seconds)), xticks=[])
    sizes = [report.memory_mb, report.kernel_matrix_mb]
    bars = memory.barh(["budget of the fit", "kernel matrix"], sizes, color=(_OURS, _THEIRS))
    memory.bar_label(bars, fmt="%.0f MB", padding=3)
    memory.set(title="Memory", xlim=(0, 1.25 * max(sizes)), xticks=[])
    for axes in (time, memory):
        axes.invert_yaxis()
        axes.spines[["top", "right", "bottom"]].set_visible(False)


def _draw_deformations(figure: Any, originals: np.ndarray, rows: np.ndarray, side: int) -> None:
    n_rows, n_columns = 3, 9
    axes = figure.subplots(n_rows, n_columns)
    for i in range(n_rows):
        shown = [
            originals[i],
            *(rows[i + k * len(originals)].reshape(side, side) for k in range(_times(rows, originals))),
        ]
        for k, place in enumerate(axes[i]):
            place.set_axis_off()
            if k < len(shown):
                place.imshow(shown[k], cmap="gray_r")
    figure.suptitle("an original of 8 × 8 pixels, and deformations of it", fontsize=10)


def _times(rows: np.ndarray, originals: np.ndarray) -> int:
    """Return how many deformations all of the first originals have, at most eight."""
    return min(8, max(1, len(rows) // len(originals)))


def _draw_test(figure: Any, test: tuple[np.ndarray, np.ndarray, np.ndarray], side: int) -> None:
    X, y, predicted = test
    order = np.argsort(predicted == y, kind="stable")[:16]
    for image, place in zip(order, figure.subplots(2, 8).ravel(), strict=True):
        place.imshow(X[image].reshape(side, side), cmap="gray_r")
        wrong = predicted[image] != y[image]
        place.set_title(f"{y[image]} → {predicted[image]}", fontsize=8, color="crimson" if wrong else "black")
        place.set_axis_off()
    figure.suptitle(f"{len(y)} test images: true → predicted, errors first", fontsize=10)
