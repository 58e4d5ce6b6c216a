"""How the penalty λ of a linear SVM sets its margin, and the line after more and more steps."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from bench.gallery.shared.style import COLOURS
from fastsvm import SVC, SGDClassifier
from fastsvm.displays import HyperplaneDisplay, MarginDisplay

TITLE = "The penalty sets the margin"

_LAMBDAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_BATCH, _RATE, _SHOWN_LAMBDA = 100, 0.1, 1e-4
_GAP = 0.1


def draw(out: Path, quick: bool) -> str:
    """Draw the line for one λ after more and more steps, and boundary and margins for several λ."""
    X, y = _points(400 if quick else 2_000)
    epochs = (2_000 if quick else 100_000) * _BATCH // len(X)
    figure = plt.figure(figsize=(16, 10))
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    left, right = upper.subplots(1, 2, width_ratios=[1.5, 1])
    _draw_path(left, X, y, epochs)
    models = [_descent(alpha, epochs).fit(X, y) for alpha in _LAMBDAS]
    widths = [2 / np.linalg.norm(model.coef_) for model in models]
    widest = 2 / np.linalg.norm(SVC(kernel="linear", C=1e6).fit(X, y).coef_)
    _draw_widths(right, widths, widest)
    for ax, model, width in zip(lower.subplots(1, 5, sharex=True, sharey=True), models, widths, strict=True):
        small = {"points_kwargs": {"s": 5, "linewidths": 0}, "grid_resolution": 120}
        MarginDisplay.from_estimator(model, X, y, ax=ax, legend=False, **small)
        ax.set(title=f"λ = {model.alpha:g}: {width:.2f} wide", aspect="equal")
        ax.label_outer()
    figure.savefig(out)
    plt.close(figure)
    return _words(len(X), epochs * len(X) // _BATCH, widths, widest)


def _points(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two clouds of points. The gap between them is narrow and oblique to the line between their centres."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 2, 1, -1)
    across, along = y * (_GAP + np.abs(rng.normal(0, 0.8, n))), rng.normal(0, 1.2, n) + 0.9 * y
    return np.array([1.0, 0.5]) + np.column_stack([0.6 * across - 0.8 * along, 0.8 * across + 0.6 * along]), y


def _descent(alpha: float, epochs: int) -> SGDClassifier:
    return SGDClassifier(
        alpha=alpha, learning_rate="constant", eta0=_RATE, batch_size=_BATCH, tol=None, average=False, random_state=0,
        max_iter=epochs,
    )  # fmt: skip


def _draw_path(ax: plt.Axes, X: np.ndarray, y: np.ndarray, epochs: int) -> None:
    """Draw the line after more and more epochs. The colour bar counts steps."""
    shown = np.unique(np.geomspace(1, epochs, 6).astype(int)).tolist()
    display = HyperplaneDisplay.from_estimator(
        _descent(_SHOWN_LAMBDA, epochs), X, y, max_iters=shown, ax=ax, legend="lower left", points_kwargs={"s": 9}
    )
    display.colorbar_.set_label("steps")
    display.colorbar_.set_ticklabels([f"{k * len(X) // _BATCH:,}" for k in shown])
    ax.set_title(f"λ = {_SHOWN_LAMBDA:g}: the line after some steps; margins of the last")


def _draw_widths(ax: plt.Axes, widths: list[float], widest: float) -> None:
    ax.axhline(widest, color="0.3", linestyle="--", label=f"hard margin, {widest:.2f}")
    ax.plot(_LAMBDAS, widths, "o-", color=COLOURS[0], label="2 / ‖w‖ at the end")
    ax.set(xscale="log", yscale="log", xlabel="λ", ylabel="width of the margin")
    ax.set_title("a smaller λ, a narrower margin")
    ax.set_yticks([0.2, 0.5, 1.0], ["0.2", "0.5", "1"])
    ax.set_yticks([], minor=True)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=10)


def _words(n: int, steps: int, widths: list[float], widest: float) -> str:
    return (
        f"{n:,} points that a line separates. The objective is the mean hinge loss + λ ½‖w‖². Each step follows its "
        f"gradient on {_BATCH} points with the learning rate {_RATE:g}. Above, with λ = {_SHOWN_LAMBDA:g}, the first "
        f"steps turn the line. The later ones, of {steps:,} in all, hardly move it but narrow its margin.\n\n"
        "λ is the price of long weights, and the margin is 2/‖w‖ wide. A large λ keeps the weights short and the "
        f"margin wide, so that many points violate it ({widths[0]:.2f} at λ = {_LAMBDAS[0]:g}). With a small λ the "
        f"weights grow until hardly a point is in the margin ({widths[-1]:.2f} at λ = {_LAMBDAS[-1]:g}). As λ goes "
        f"to 0, the margin tends to the widest one that contains no point, {widest:.2f}."
    )
