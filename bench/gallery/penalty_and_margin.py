"""How the penalty λ of a linear SVM sets its margin, and the line on its way there."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from fastsvm import SGDClassifier

TITLE = "The penalty sets the margin"

_LAMBDAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_SHOWN_STEPS = (20, 200, 2_000)


def draw(out: Path, quick: bool) -> str:
    """Draw lines f = 0 and margins f = ±1 for several λ, and for one λ after several numbers of steps."""
    X, y = _points(400 if quick else 2_000)
    n_steps = 20_000 if quick else 100_000
    figure, axes = plt.subplots(2, 4, figsize=(15, 7.6), sharex=True, sharey=True, layout="constrained")
    panels = axes.ravel()
    widths = []
    for panel, alpha in zip(panels, _LAMBDAS, strict=False):
        model = _fit(X, y, alpha, n_steps)
        widths.append(2 / np.linalg.norm(model.coef_))
        _draw(panel, X, y, model, f"λ = {alpha:g}: margin {widths[-1]:.2f} wide")
    for panel, steps in zip(panels[len(_LAMBDAS) :], _SHOWN_STEPS, strict=True):
        _draw(panel, X, y, _fit(X, y, 1e-4, steps), f"λ = 0.0001 after {steps:,} steps")
    figure.savefig(out, dpi=110)
    plt.close(figure)
    return (
        f"Mini-batch hinge SGD on {len(X):,} points that a line separates, rate 0.1, batches of 100, {n_steps:,} "
        f"steps. A smaller λ lets the weights grow, and the margin, 2/‖w‖ wide, shrinks: {widths[0]:.2f} at λ = "
        f"{_LAMBDAS[0]:g}, {widths[-1]:.2f} at λ = {_LAMBDAS[-1]:g}. In the last row the line on its way."
    )


def _points(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points in two clouds, a gap apart."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 2, 1, -1)
    along, across = rng.normal(0, 1.2, n), y * (0.35 + np.abs(rng.normal(0, 0.8, n)))
    direction = np.array([0.6, 0.8])
    return across[:, None] * direction + along[:, None] * np.array([-0.8, 0.6]), y


def _fit(X: np.ndarray, y: np.ndarray, alpha: float, n_steps: int) -> SGDClassifier:
    model = SGDClassifier(
        alpha=alpha, learning_rate="constant", eta0=0.1, batch_size=100, tol=None, average=False, random_state=0,
        max_iter=max(1, n_steps * 100 // len(X)),
    )  # fmt: skip
    return model.fit(X, y)


def _draw(panel: plt.Axes, X: np.ndarray, y: np.ndarray, model: SGDClassifier, title: str) -> None:
    side = np.linspace(-4.5, 4.5, 200)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    scores = model.decision_function(grid).reshape(200, 200)
    soft = model.soft_decision(grid).reshape(200, 200)
    panel.contourf(side, side, soft, 40, cmap="RdBu", alpha=0.5, vmin=-1.6, vmax=1.6)
    panel.contour(side, side, scores, [-1, 0, 1], colors="k", linestyles=["--", "-", "--"], linewidths=1)
    shown = slice(0, 400)
    panel.scatter(*X[shown].T, c=np.where(y[shown] > 0, "#1f5fa8", "#b3282d"), s=7, linewidths=0)
    panel.set(title=title, xlim=(-4.5, 4.5), ylim=(-4.5, 4.5), aspect="equal")
