"""Ascent in the dual problem, one multiplier at a time: with one rate for all, and with the step that suits each."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from bench.gallery.rings_and_moons import EPOCHS, Case, donut, fitted, moons, show
from bench.gallery.style import legend_above
from fastsvm import SVC
from fastsvm.displays import ConvergenceDisplay
from fastsvm.displays.convergence import Curve

TITLE = "Up the dual: coordinate ascent"


def draw(out: Path, quick: bool) -> str:
    """Draw what both kinds of steps find, and the dual objective on their way."""
    figure, axes = plt.subplots(2, 3, figsize=(16, 9.4))
    told = []
    for row, case in zip(axes, (donut(1e-3), moons(0.5, 1e-2)), strict=True):
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
    """Draw the dual objective against the number of multipliers that were moved."""
    n, last = len(case.y), int(exact.n_iter_[0])
    counts = np.unique(np.geomspace(1, last, 40).astype(int))
    on_the_way = [fitted(case, solver="coordinate", max_iter=int(k)).objective_ for k in counts]
    curves = [
        Curve(f"rate {case.rate:g} for all", n * given.history_["iteration"], given.history_["objective"]),
        Curve("exact steps 1/k(x, x)", counts, np.array(on_the_way)),
    ]
    display = ConvergenceDisplay(curves, axis_names=("multipliers moved", "dual objective")).plot(ax)
    for line in display.lines_:
        line.set_marker("")
    ax.axhline(exact.objective_, color="0.3", linestyle="--", linewidth=1, label="the optimum")
    ax.set(xscale="log", ylim=(0, 1.4 * exact.objective_))
    ax.legend(fontsize=10, loc="upper left")


def _words(told: list[tuple[SVC, SVC]]) -> str:
    parts = [
        f"on the {name} {given.objective_:.2f} after {EPOCHS} steps of all multipliers with the rate "
        f"{given.learning_rate:g}, and the optimum, {exact.objective_:.2f}, after {int(exact.n_iter_[0]):,} exact "
        "steps of one multiplier each"
        for name, (given, exact) in zip(("rings", "moons"), told, strict=True)
    ]
    return (
        "A support vector machine can be trained from the other side: each point i has a multiplier α between 0 and C, "
        "and the dual objective, Σα - ½ ΣΣ ααyy k(x, x), rises to its maximum. Points whose α is 0 in the end do not "
        "count; the others are the support vectors, which are circled. Above two rings by the kernel "
        "(1 + x·z)², below two moons by exp(-‖x-z‖²/0.25), both with C = 1 and no offset in the problem.\n\n"
        "On the left all multipliers move at once along the gradient, by one rate that somebody has to choose: too "
        "large and it does not converge, too small and it takes for ever. In the middle one multiplier moves at a "
        "time, by the exact step 1/k(x, x), which nobody has to choose. On the right the objective of both, on a "
        f"logarithmic axis: {'; '.join(parts)}."
    )
