"""Ascent in the dual problem: all multipliers with one learning rate, or one multiplier at a time with exact steps."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from bench.gallery.shared.rings_and_moons import EPOCHS, Case, donut, fitted, moons, show
from bench.gallery.shared.style import legend_above
from fastsvm import SVC
from fastsvm.displays import ConvergenceDisplay
from fastsvm.displays.convergence import Curve

TITLE = "Up the dual: coordinate ascent"


def draw(out: Path, quick: bool) -> str:
    """Draw the models of both kinds of steps, and the dual objective during the fits."""
    figure, axes = plt.subplots(2, 3, figsize=(16, 9.4))
    told = []
    for row, case in zip(axes, (donut(1e-3, quick), moons(0.5, 1e-2, quick)), strict=True):
        given = fitted(case, solver="coordinate", learning_rate=case.rate, max_iter=EPOCHS)
        exact = fitted(case, solver="coordinate")
        show(row[0], case, given, f"rate {case.rate:g}", legend=not told)
        show(row[1], case, exact, "exact steps", legend=False)
        _draw_objectives(row[2], case, given, exact)
        told.append((given, exact))
    legend_above(axes[0, 0])
    figure.savefig(out)
    plt.close(figure)
    return _words(told)


def _draw_objectives(ax: plt.Axes, case: Case, given: SVC, exact: SVC) -> None:
    """Draw the dual objective against the number of updated multipliers."""
    n, last = len(case.y), int(exact.n_iter_[0])
    counts = np.unique(np.geomspace(1, last, 40).astype(int))
    objectives = [fitted(case, solver="coordinate", max_iter=int(k)).objective_ for k in counts]
    curves = [
        Curve(f"rate {case.rate:g} for all", n * given.history_["iteration"], given.history_["objective"]),
        Curve("exact steps 1/k(x, x)", counts, np.array(objectives)),
    ]
    display = ConvergenceDisplay(curves, axis_names=("updated multipliers", "dual objective")).plot(ax)
    for line in display.lines_:
        line.set_marker("")
    ax.axhline(exact.objective_, color="0.3", linestyle="--", linewidth=1, label="the optimum")
    ax.set(xscale="log", ylim=(0, 1.4 * exact.objective_))
    ax.legend(fontsize=10, loc="upper left")


def _words(told: list[tuple[SVC, SVC]]) -> str:
    parts = [
        f"on the {name} it is {given.objective_:.2f} after {EPOCHS} steps of all multipliers with the rate "
        f"{given.learning_rate:g}, and {exact.objective_:.2f}, the optimum, after {int(exact.n_iter_[0]):,} exact "
        "steps of one multiplier each"
        for name, (given, exact) in zip(("rings", "moons"), told, strict=True)
    ]
    return (
        "A support vector machine can be trained in the dual. Each point i has a multiplier α between 0 and C, and the "
        "dual objective, Σα - ½ ΣΣ ααyy k(x, x), rises to its maximum. Points whose α is 0 at the end do not count. "
        "The others are the support vectors, which are circled. Above are two rings with the kernel (1 + x·z)², below "
        "two moons with exp(-‖x-z‖²/0.25), both with C = 1 and without an intercept.\n\n"
        "On the left all multipliers move along the gradient with one learning rate, which the user must choose. If "
        "it is too large the steps do not converge, and if it is too small they take very long. In the middle one "
        "multiplier moves at a time, by the exact step 1/k(x, x), so there is nothing to choose. On the right is the "
        f"objective of both, on a logarithmic axis: {'; '.join(parts)}."
    )
