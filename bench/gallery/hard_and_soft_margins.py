"""From the soft margin to the hard one: the same Gaussian kernel with larger and larger C."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons

from bench.gallery.shared.style import legend_above
from fastsvm import SVC
from fastsvm.displays import MarginDisplay

TITLE = "Soft margins and the hard one"

_PENALTIES = (0.1, 1, 100, 1e9)


def draw(out: Path, quick: bool) -> str:
    """Draw boundary and margins for each C. The last C is so large that no violation pays."""
    n = 120 if quick else 240
    X, y = make_moons(n, noise=0.22, random_state=1)
    X_test, y_test = make_moons(4_000, noise=0.22, random_state=2)
    figure, axes = plt.subplots(2, 2, figsize=(13.5, 9.6), sharex=True, sharey=True)
    told = []
    for ax, C in zip(axes.flat, _PENALTIES, strict=True):
        model = SVC(C=C, gamma=2).fit(X, y)
        MarginDisplay.from_estimator(model, X, y, ax=ax, grid_resolution=300, legend=ax is axes[0, 0])
        violations = int(np.sum(np.where(y == 1, 1, -1) * model.decision_function(X) < 1 - 2 * model.tol))
        accuracy = model.score(X_test, y_test)
        name = "hard margin, C = $10^9$" if _PENALTIES[-1] == C else f"C = {C:g}"
        ax.set_title(f"{name}: {violations} in the margin or wrong, test accuracy {accuracy:.1%}")
        told.append((violations, len(model.support_), accuracy, _width(model)))
        ax.label_outer()
    legend_above(axes[0, 0])
    figure.savefig(out)
    plt.close(figure)
    return _words(n, told)


def _width(model: SVC) -> float:
    """Return 2 / ‖w‖ in the space of the kernel, from the dual objective Σα - ½‖w‖²."""
    return 2 / np.sqrt(2 * (np.abs(model.dual_coef_).sum() - model.objective_))


def _words(n: int, told: list[tuple[int, int, float, float]]) -> str:
    (soft, soft_vectors, _, soft_width), *_, (hard, hard_vectors, hard_accuracy, hard_width) = told
    best = max(range(len(told)), key=lambda k: told[k][2])
    return (
        f"{n} points, the Gaussian kernel exp(-2‖x-z‖²). C is the price of a point within the margin or on the "
        f"wrong side of it. At C = {_PENALTIES[0]:g} violations are cheap: there are {soft}, the margin is wide "
        f"({soft_width:.2f} in the space of the kernel) and the boundary smooth. The larger C, the fewer "
        "violations, and the more the boundary bends around single points.\n\n"
        "In the last picture C is so large that no violation pays. This is the hard margin. It exists because the "
        f"Gaussian kernel can separate any points that differ. {hard or 'No'} points violate it, "
        f"{hard_vectors} support vectors remain (of {soft_vectors} in the first picture), and the margin is only "
        f"{hard_width:.4f} wide. It classifies every training point correctly, but only {hard_accuracy:.1%} of the "
        f"test points. The best C on test points is {_PENALTIES[best]:g}, with {told[best][2]:.1%}. A perfect fit to "
        "the training points is not the aim."
    )
