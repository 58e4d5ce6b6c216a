"""Kernels of one's own: a class whose formula is compiled, and a plain function, each of which knows something."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from bench.gallery.style import legend_above
from fastsvm import SVC
from fastsvm.displays import MarginDisplay
from fastsvm.kernels import RBF, kernel_value

TITLE = "A kernel of one's own"


class Rings(NamedTuple):
    """k(x, z) = exp(-gamma (‖x‖ - ‖z‖)²), which only sees how far from the centre a point is."""

    gamma: float = 1.0
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of the difference of two lengths, squared."""
        return 4 * self.gamma * eps * sq_norm + eps


@kernel_value.register(Rings)
def _rings(kernel, dot, sq_x, sq_z):
    difference = np.sqrt(sq_x) - np.sqrt(sq_z)
    return np.exp(-kernel.gamma * difference * difference)


def periodic(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return exp(-2 Σ sin²(π (x - z) / 2)) of all pairs of rows: what is 2 apart is the same."""
    return np.exp(-2 * np.sum(np.sin(np.pi / 2 * (A[:, None] - B[None])) ** 2, axis=2))


class Pattern(NamedTuple):
    """Points of the plane, which of them are learnt from, and the outline of these."""

    X: np.ndarray
    y: np.ndarray
    seen: np.ndarray
    outline: np.ndarray


def draw(out: Path, quick: bool) -> str:
    """Draw rings and a chessboard, of which a part is learnt from, by a Gaussian kernel and by one that knows more."""
    n = 1_000 if quick else 2_000
    figure, axes = plt.subplots(2, 2, figsize=(12, 11.4), sharex=True, sharey=True)
    told = []
    for row, pattern, own in zip(axes, (_rings_pattern(n), _chessboard(n)), (Rings(4.0), periodic), strict=True):
        for ax, kernel in zip(row, (RBF(4.0), own), strict=True):
            model = SVC(kernel=kernel, C=10).fit(pattern.X[pattern.seen], pattern.y[pattern.seen])
            unseen = ~pattern.seen
            told.append(model.score(pattern.X[unseen], pattern.y[unseen]))
            name = "Gaussian kernel" if kernel != own else "kernel of one's own"
            ax.set_title(f"{name}: {told[-1]:.1%} right outside the outline")
            _draw_pattern(ax, model, pattern)
    legend_above(axes[0, 0])
    figure.savefig(out)
    plt.close(figure)
    return _words(told)


def _rings_pattern(n: int) -> Pattern:
    rng = np.random.default_rng(0)
    radius, angle = 4 * np.sqrt(rng.random(n)), rng.uniform(-np.pi, np.pi, n)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    arc = np.linspace(-1, 1, 50) * np.pi / 5
    outline = 4.05 * np.column_stack([np.cos(arc), np.sin(arc)])
    return Pattern(X, radius.astype(int) % 2, np.abs(angle) < np.pi / 5, np.pad(outline, ((1, 1), (0, 0))))


def _chessboard(n: int) -> Pattern:
    X = np.random.default_rng(1).uniform(-4, 4, (n, 2))
    corners = 2 * np.array([[-1, -1], [-1, 1], [1, 1], [1, -1], [-1, -1]])
    return Pattern(X, np.floor(X).astype(int).sum(axis=1) % 2, np.abs(X).max(axis=1) < 2, corners)


def _draw_pattern(ax: plt.Axes, model: SVC, pattern: Pattern) -> None:
    look = {"points_kwargs": {"s": 7, "linewidths": 0}, "lines_kwargs": {"linewidths": 0.9}}
    MarginDisplay.from_estimator(model, pattern.X, pattern.y, circle=False, grid_resolution=400, ax=ax, **look)
    if ax.get_subplotspec().rowspan.start or ax.get_subplotspec().colspan.start:
        ax.get_legend().remove()
    for colour, width in (("white", 7), ("black", 4)):
        ax.plot(*pattern.outline.T, color=colour, linewidth=width, zorder=6)
    ax.set_aspect("equal")
    ax.label_outer()


def _words(told: list[float]) -> str:
    return (
        "A kernel says which points are alike, and this is where knowledge of a problem goes. In each picture the "
        "model learns only from the points within the thick outline, and is asked about all others. The Gaussian "
        "kernel (on the left) finds alike what is near: it is right where it has seen points, and knows nothing "
        f"elsewhere ({told[0]:.0%} and {told[2]:.0%} right).\n\n"
        "On the right are kernels of one's own. The one for the rings, exp(-4 (‖x‖ - ‖z‖)²), looks at the distance "
        f"from the centre alone, and completes the rings: {told[1]:.1%} right. It is a NamedTuple of its parameters "
        "with one formula, which is compiled like those of the package. The one for the chessboard, exp(-2 Σ "
        f"sin²(π (x - z) / 2)), finds alike what is two squares apart, and continues the board: {told[3]:.1%} "
        "right. It is a plain function of two blocks of rows, SVC(kernel=periodic)."
    )
