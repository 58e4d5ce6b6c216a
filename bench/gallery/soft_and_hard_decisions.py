"""Score f of a linear model, its sign, and f clipped at the margins."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs

from bench.gallery.shared.style import COLOURS, legend_above
from fastsvm import SGDClassifier
from fastsvm.displays import MarginDisplay

TITLE = "Hard and soft decisions"

_HARD, _SOFT = "hard: sign(f)", "soft: clip(f, -1, 1)"


def draw(out: Path, quick: bool) -> str:
    """Draw both decisions in the plane, and along a path across the line."""
    X, y = make_blobs(200 if quick else 600, centers=[[-1.3, -0.8], [1.3, 0.8]], cluster_std=1.0, random_state=3)
    model = SGDClassifier(alpha=0.01, random_state=0).fit(X, y)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 5.2))
    shown = {"points_kwargs": {"alpha": 0.6}, "circle": False, "grid_resolution": 400}
    MarginDisplay.from_estimator(model, X, y, ax=left, shade_by="predict", **shown)
    MarginDisplay.from_estimator(model, X, y, ax=middle, shade_by="soft_decision", legend=False, **shown)
    _draw_section(right, model)
    legend_above(left)
    for ax, title in ((left, _HARD), (middle, _SOFT), (right, "along a path at right angles to the line")):
        ax.set_title(title)
    figure.savefig(out)
    plt.close(figure)
    return _words(model, X, y)


def _draw_section(ax: plt.Axes, model: SGDClassifier) -> None:
    """Draw f, its sign, and clipped f, from one side of the line f = 0 to the other."""
    w, reach = model.coef_[0], 2.5 / np.linalg.norm(model.coef_)
    at = np.linspace(-reach, reach, 801)
    path = at[:, None] * w / np.linalg.norm(w) - model.intercept_[0] * w / (w @ w)
    ax.plot(at, model.decision_function(path), color="0.5", linestyle=":", linewidth=2, label="f")
    ax.plot(at, np.where(model.predict(path) == 1, 1, -1), color=COLOURS[0], linewidth=2, label=_HARD)
    ax.plot(at, model.soft_decision(path), color=COLOURS[1], linewidth=3, linestyle="--", label=_SOFT)
    ax.set(xlabel="distance from the line", ylabel="decision", ylim=(-2.1, 2.1))
    ax.grid(alpha=0.3)
    ax.legend(fontsize=9, loc="upper left")


def _words(model: SGDClassifier, X: np.ndarray, y: np.ndarray) -> str:
    unsure = np.abs(model.soft_decision(X)) < 1
    right = model.predict(X) == y
    return (
        f"The same linear model of {len(X):,} points twice. The hard decision is the sign of f: it jumps at the "
        "line, and a point beside the line counts as much as one far away. The soft decision is f clipped to "
        "[-1, 1], that is, at the dashed margins. It rises gradually from one class to the other. Pale colour means: "
        "not sure.\n\n"
        f"Here {unsure.sum():,} points are within the margin, and {right[unsure].mean():.0%} of them are classified "
        f"correctly. Of the {np.sum(~unsure):,} others, {right[~unsure].mean():.1%} are. "
        "SGDClassifier.soft_decision returns the soft decision, and predict the hard one."
    )
