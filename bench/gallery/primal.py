"""Descent in the primal problem: subgradient steps, and Newton's method for the squared hinge."""

from pathlib import Path

from matplotlib import pyplot as plt

from bench.gallery.shared.rings_and_moons import EPOCHS, donut, fitted, moons, show
from bench.gallery.shared.style import legend_above
from fastsvm import SVC
from fastsvm.displays import ConvergenceDisplay
from fastsvm.displays.convergence import Curve

TITLE = "Down the primal: subgradients and Newton's method"

_TIGHT = 1e-9


def draw(out: Path, quick: bool) -> str:
    """Draw the models of both methods, and the distance from the minimum after each step."""
    figure, axes = plt.subplots(2, 3, figsize=(16, 9.4))
    told = []
    for row, case in zip(axes, (donut(1e-5, quick), moons(0.7, 1e-3, quick)), strict=True):
        slow = fitted(case, solver="primal", learning_rate=case.rate, max_iter=EPOCHS)
        newton = fitted(case, solver="primal", loss="squared_hinge", tol=_TIGHT)
        least = fitted(case, tol=_TIGHT).objective_, newton.objective_
        show(row[0], case, slow, f"subgradients, rate {case.rate:g}", legend=not told)
        show(row[1], case, newton, "Newton, squared hinge", legend=False)
        _draw_excess(row[2], slow, newton, least)
        told.append((slow, newton, slow.objective_ - least[0]))
    legend_above(axes[0, 0])
    figure.savefig(out)
    plt.close(figure)
    return _words(told)


def _draw_excess(ax: plt.Axes, slow: SVC, newton: SVC, least: tuple[float, float]) -> None:
    """Draw the distance of each objective from the minimum for its own loss."""
    curves = []
    for name, model, minimum in zip(("subgradients", "Newton"), (slow, newton), least, strict=True):
        excess = model.history_["objective"] - minimum
        seen = excess > 1e-9 * minimum
        curves.append(Curve(name, model.history_["iteration"][seen], excess[seen]))
    ConvergenceDisplay(curves, axis_names=("steps", "objective above its minimum")).plot(ax)
    ax.set(xscale="log", yscale="log")


def _words(told: list[tuple[SVC, SVC, float]]) -> str:
    (ring, ring_newton, ring_left), (moon, moon_newton, moon_left) = told
    return (
        "The same rings and moons (σ = 0.7), trained in the primal. The primal objective, ½‖w‖² + C Σ loss, falls to "
        "its minimum. The hinge loss, max(0, 1 - y f), has a kink at the margin of each point. There is no gradient, "
        "only a subgradient, and no step length suits all points. On the left is the model after "
        f"{EPOCHS} steps with one learning rate. On the right is the distance of the objective from its minimum. After "
        f"the last step with rate {ring.learning_rate:g} the rings are still {ring_left:.1f} above it. The moons come "
        f"near in some ten steps with rate {moon.learning_rate:g}, and then oscillate: the last step is "
        f"{moon_left:.1f} above. All points may be classified correctly long before.\n\n"
        "The squared hinge has a continuous gradient, and Newton's method uses it. Each step goes to the point that "
        "would be the minimum if no sample crossed its margin. In the middle are the models after "
        f"{int(ring_newton.n_iter_[0])} and {int(moon_newton.n_iter_[0])} steps to a tolerance of {_TIGHT:g}, with "
        "no learning rate to choose. The squared hinge charges little for a small violation. So more points end up "
        f"within the margin, circled: {len(ring_newton.within_margin_)} and {len(moon_newton.within_margin_)}."
    )
