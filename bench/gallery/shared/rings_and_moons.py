"""Two problems that no line separates, and what their pictures share."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from sklearn.datasets import make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm.displays import MarginDisplay
from fastsvm.kernels import RBF, Polynomial

__all__ = ["EPOCHS", "Case", "donut", "fitted", "moons", "show"]

EPOCHS = 500


class Case(NamedTuple):
    """Points, a kernel, and the learning rate of gradient steps."""

    X: np.ndarray
    y: np.ndarray
    kernel: Any
    rate: float


def donut(rate: float, quick: bool) -> Case:
    """Return two concentric rings, and the kernel (1 + x·z)²."""
    X, y = make_circles(200 if quick else 500, noise=0.08, factor=0.5, random_state=0)
    return Case(X, y, Polynomial(degree=2, coef0=1.0), rate)


def moons(sigma: float, rate: float, quick: bool) -> Case:
    """Return two moons, and the kernel exp(-‖x - z‖² / σ²)."""
    X, y = make_moons(160 if quick else 400, noise=0.1, random_state=6)
    return Case(X, y, RBF.from_sigma(sigma, "sigma2"), rate)


def fitted(case: Case, **given: Any) -> SVC:
    """Return a fitted model, which may stop before it converges."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(kernel=case.kernel, **given).fit(case.X, case.y)


def show(ax: Axes, case: Case, model: SVC, title: str, legend: bool) -> None:
    """Draw boundary, margins and the points within the margin."""
    MarginDisplay.from_estimator(model, case.X, case.y, ax=ax, legend=legend)
    ax.set_title(f"{title}: {len(model.within_margin_)} circled, accuracy {model.score(case.X, case.y):.1%}")
    ax.set(xlabel="", ylabel="")
