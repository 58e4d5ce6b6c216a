"""
Custom kernels
==============

A kernel says which points are similar. Here knowledge of the problem can be used. Each model learns only from the
points inside the thick outline, and predicts all others.
"""

from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from fastsvm import SVC
from fastsvm.displays import MarginDisplay
from fastsvm.kernels import RBF, kernel_value

# %%
# Rings
# -----
# k(x, z) = exp(-γ (‖x‖ - ‖z‖)²) depends only on the distance from the centre. It is a NamedTuple of its parameters
# with one formula, which is compiled like those of the package.


class Rings(NamedTuple):
    """k(x, z) = exp(-gamma (‖x‖ - ‖z‖)²)."""

    gamma: float = 1.0
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of a squared difference of two norms."""
        return 4 * self.gamma * eps * sq_norm + eps


@kernel_value.register(Rings)
def rings(kernel, dot, sq_x, sq_z):
    """Return the kernel of two points, from their dot product and their squared norms."""
    difference = np.sqrt(sq_x) - np.sqrt(sq_z)
    return np.exp(-kernel.gamma * difference * difference)


rng = np.random.default_rng(0)
radius, angle = 4 * np.sqrt(rng.random(1_000)), rng.uniform(-np.pi, np.pi, 1_000)
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
y, seen = radius.astype(int) % 2, np.abs(angle) < np.pi / 5
arc = np.linspace(-1, 1, 50) * np.pi / 5
outline = np.pad(4.05 * np.column_stack([np.cos(arc), np.sin(arc)]), ((1, 1), (0, 0)))


def compare(X, y, seen, outline, kernels):
    """Draw models with two kernels, which learn from the points that are seen."""
    _, axes = plt.subplots(1, 2, figsize=(11, 5.4), sharey=True)
    for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
        model = SVC(kernel=kernel, C=10).fit(X[seen], y[seen])
        MarginDisplay.from_estimator(
            model, X, y, ax=ax, circle=False, legend=False, grid_resolution=150, points_kwargs={"s": 7, "linewidths": 0}
        )
        ax.plot(*outline.T, color="black", linewidth=4, zorder=6)
        ax.set(title=f"{name}: accuracy {model.score(X[~seen], y[~seen]):.1%} outside", aspect="equal")
    plt.show()


compare(X, y, seen, outline, {"Gaussian kernel": RBF(4.0), "Rings": Rings(4.0)})

# %%
# With the Gaussian kernel near points are similar: the model is right near the training points and knows nothing
# elsewhere. The other model completes the rings.
#
# A chessboard
# ------------
# A plain function of two blocks of samples is a kernel too. In this one, points that are two squares apart are
# similar.


def periodic(A, B):
    """Return exp(-2 Σ sin²(π (x - z) / 2)) of all pairs of samples. It has period 2."""
    return np.exp(-2 * np.sum(np.sin(np.pi / 2 * (A[:, None] - B[None])) ** 2, axis=2))


X = np.random.default_rng(1).uniform(-4, 4, (1_000, 2))
y, seen = np.floor(X).astype(int).sum(axis=1) % 2, np.abs(X).max(axis=1) < 2
corners = 2 * np.array([[-1, -1], [-1, 1], [1, 1], [1, -1], [-1, -1]])
compare(X, y, seen, corners, {"Gaussian kernel": RBF(4.0), "periodic": periodic})
