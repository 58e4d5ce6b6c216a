"""Custom kernels that know the problem: a class whose formula is compiled, and a plain function."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from bench.gallery.shared.style import legend_above
from fastsvm import SVC
from fastsvm.displays import MarginDisplay
from fastsvm.kernels import RBF, kernel_value

TITLE = "Custom kernels"


class Rings(NamedTuple):
    """k(x, z) = exp(-gamma (‖x‖ - ‖z‖)²), which depends only on the distance from the centre."""

    gamma: float = 1.0
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of a squared difference of two norms."""
        return 4 * self.gamma * eps * sq_norm + eps


@kernel_value.register(Rings)
def _rings(kernel, dot, sq_x, sq_z):
    difference = np.sqrt(sq_x) - np.sqrt(sq_z)
    return np.exp(-kernel.gamma * difference * difference)


def periodic(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return exp(-2 Σ sin²(π (x - z) / 2)) of all pairs of samples. It has period 2."""
    return np.exp(-2 * np.sum(np.sin(np.pi / 2 * (A[:, None] - B[None])) ** 2, axis=2))


class Pattern(NamedTuple):
    """Points of the plane, which of them are for training, and the outline of those."""

    X: np.ndarray
    y: np.ndarray
    seen: np.ndarray
    outline: np.ndarray


def draw(out: Path, quick: bool) -> str:
    """Draw rings and a chessboard. Models with a Gaussian and with a custom kernel learn from a part of each."""
    n = 1_000 if quick else 2_000
    figure, axes = plt.subplots(2, 2, figsize=(12, 11.4), sharex=True, sharey=True)
    told = []
    for row, pattern, own in zip(axes, (_rings_pattern(n), _chessboard(n)), (Rings(4.0), periodic), strict=True):
        for ax, kernel in zip(row, (RBF(4.0), own), strict=True):
            model = SVC(kernel=kernel, C=10).fit(pattern.X[pattern.seen], pattern.y[pattern.seen])
            unseen = ~pattern.seen
            told.append(model.score(pattern.X[unseen], pattern.y[unseen]))
            name = "Gaussian kernel" if kernel != own else "custom kernel"
            ax.set_title(f"{name}: accuracy {told[-1]:.1%} outside the outline")
            _draw_pattern(ax, model, pattern, 100 if quick else 400)
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


def _draw_pattern(ax: plt.Axes, model: SVC, pattern: Pattern, resolution: int) -> None:
    look = {"points_kwargs": {"s": 7, "linewidths": 0}, "lines_kwargs": {"linewidths": 0.9}}
    MarginDisplay.from_estimator(model, pattern.X, pattern.y, circle=False, grid_resolution=resolution, ax=ax, **look)
    if ax.get_subplotspec().rowspan.start or ax.get_subplotspec().colspan.start:
        ax.get_legend().remove()
    for colour, width in (("white", 7), ("black", 4)):
        ax.plot(*pattern.outline.T, color=colour, linewidth=width, zorder=6)
    ax.set_aspect("equal")
    ax.label_outer()


def _words(told: list[float]) -> str:
    return (
        "A kernel says which points are similar. Here knowledge of the problem can be used. In each picture the model "
        "learns only from the points inside the thick outline, and predicts all others. With the Gaussian kernel "
        "(left), near points are similar: the model is right near the training points and knows nothing elsewhere "
        f"(accuracy {told[0]:.0%} and {told[2]:.0%}).\n\n"
        "On the right are custom kernels. The one for the rings, exp(-4 (‖x‖ - ‖z‖)²), depends only on the distance "
        f"from the centre, and the model completes the rings: accuracy {told[1]:.1%}. It is a NamedTuple of its "
        "parameters with one formula, which is compiled like those of the package. In the one for the chessboard, "
        "exp(-2 Σ sin²(π (x - z) / 2)), points that are two squares apart are similar, and the model continues the "
        f"board: accuracy {told[3]:.1%}. It is a plain function of two blocks of samples, SVC(kernel=periodic)."
    )
