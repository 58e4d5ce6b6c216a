"""A line between two clouds: margins, support vectors, and the steps of SMO."""

import warnings
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from bench.gallery.shared.style import legend_above
from fastsvm import SVC
from fastsvm.displays import ConvergenceDisplay, HyperplaneDisplay, MarginDisplay
from fastsvm.displays.convergence import Curve

TITLE = "A line between two clouds"


def draw(out: Path, quick: bool) -> str:
    """Draw the widest margin, the line after each pair step, and both objectives after each pair step."""
    X, y = make_blobs(150 if quick else 1_000, centers=2, n_features=2, random_state=1)
    model = SVC(kernel="linear", C=1_000).fit(X, y)
    steps, width = int(model.n_iter_[0]), 2 / np.linalg.norm(model.coef_)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14.6, 5.2), width_ratios=[1, 1.12, 1])
    MarginDisplay.from_estimator(model, X, y, ax=left, points_kwargs={"alpha": 0.6})
    path = HyperplaneDisplay.from_estimator(model, X, y, max_iters=range(1, steps + 1), ax=middle, legend=False)
    path.colorbar_.set_label("pair steps")
    _draw_objectives(right, model, X, y)
    legend_above(left)
    left.set_title(f"the widest margin, {width:.2f} wide")
    middle.set_title("the line after each pair step of SMO")
    right.set_title("the optimum is between the two")
    for ax in (left, middle):
        ax.set_aspect("equal")
    figure.savefig(out)
    plt.close(figure)
    return _words(model, len(X), steps, width)


def _draw_objectives(ax: plt.Axes, model: SVC, X: np.ndarray, y: np.ndarray) -> None:
    """Draw primal and dual objective after 1, 2, 3, ... pair steps."""
    steps = np.arange(1, model.n_iter_[0] + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # they stop early on purpose
        models = [clone(model).set_params(max_iter=int(k)).fit(X, y) for k in steps]
    dual = np.array([one.objective_ for one in models])
    primal = dual + [one.duality_gap_ for one in models]
    curves = [Curve("primal: ½‖w‖² + C · errors", steps, primal), Curve("dual, which SMO raises", steps, dual)]
    ConvergenceDisplay(curves, axis_names=("pair steps", "objective")).plot(ax)
    ax.set_yscale("log")


def _words(model: SVC, n: int, steps: int, width: float) -> str:
    return (
        f"{n:,} points, a linear kernel, C = 1,000. Many lines part the two clouds; the support vector machine "
        "chooses the line that is farthest from both. On the dashed lines f is -1 and 1. The margin between them is "
        f"{width:.2f} wide and contains no point. The circled points on the dashed lines are the support vectors. "
        f"Only {len(model.support_)} of {n:,} points matter: without the others the line is the same.\n\n"
        "SMO updates two multipliers at a time. It chooses a pair that violates the optimality conditions and promises "
        f"the largest gain, and solves the problem of these two exactly. Here {steps} steps suffice (middle). A step "
        "may move only the margins. Each step raises the dual objective (right). The primal objective is above it "
        f"and may go up and down. Where they meet, at {model.objective_:.4f}, the line is proved optimal."
    )
