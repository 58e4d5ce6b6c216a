"""Curves of the convergence of a fit."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm.displays._canvas import Axes, Display, Line2D, Look, Option, check_fit
from fastsvm.estimators.fitting.documentation import documented, documented_by
from fastsvm.estimators.kernel.solver_parameter import SOLVERS
from fastsvm.tuning import current_tuning

_PALE, _TOLERANCE, _ENDS = "fastsvm mini-batches", "fastsvm tolerance", "fastsvm ends"  # what a later call recognises


class Curve(NamedTuple):
    """One curve: its name in a legend, and its points x and y of shape (n_points,)."""

    name: str
    x: np.ndarray
    y: np.ndarray


@documented
class ConvergenceDisplay(Display):
    """Convergence of a fit: objective, gap or loss after each iteration.

    Use `from_estimator` to collect the curves of a fitted model. To compare models, call it with the same `ax` and a
    `label` for each.

    Parameters
    ----------
    curves : list of Curve
        One curve, or one for each two-class problem.
    axis_names : tuple of str
        Labels of the axes.
    tol : float or None, default=None
        Tolerance, drawn as a horizontal line; the vertical axis is then logarithmic.
    window : int, default=1
        Points in a running mean; if above 1, the mean is drawn over a pale curve.

    Attributes
    ----------
    lines_ : list of Line2D
        The curves, in the order of `curves`.
    mean_lines_ : list of Line2D
        Their running means, empty if `window` is 1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from fastsvm import SGDClassifier
    >>> from fastsvm.displays import ConvergenceDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> display = None
    >>> for alpha in (1e-3, 1e-1):
    ...     model = SGDClassifier(alpha=alpha, max_iter=10, tol=None, random_state=0).fit(X, y)
    ...     ax = None if display is None else display.ax_
    ...     display = ConvergenceDisplay.from_estimator(model, ax=ax, label=f"alpha = {alpha:g}")
    >>> [len(curve.y) for curve in display.curves]
    [10]
    """

    def __init__(
        self, curves: list[Curve], *, axis_names: tuple[str, str], tol: float | None = None, window: int = 1
    ) -> None:
        self.curves, self.axis_names, self.tol, self.window = curves, axis_names, tol, window

    @classmethod
    @documented_by(Display)
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        x: str = "iteration",
        y: str = "objective",
        ax: Axes | None = None,
        label: str | None = None,
        **drawing: Option,
    ) -> "ConvergenceDisplay":
        """Collect the curves of a fitted model and draw them.

        Parameters
        ----------
        estimator : SVC or another machine with a kernel, SGDClassifier or SGDRegressor
            Fitted.
        x : {"iteration", "time"}, default="iteration"
            Quantity on the horizontal axis. Iterations are steps of the solver of `SVC`, epochs of `SGDClassifier`
            and `SGDRegressor`, and mini-batches for their loss.
        y : {"objective", "violation", "gap", "loss"}, default="objective"
            Quantity on the vertical axis. `SVC` has an objective, which is the dual one unless its solver is "primal",
            and the largest violation of its optimality conditions. `LinearSVC` has an objective and the duality gap
            relative to it, `SGDClassifier` an objective and the loss of each mini-batch.

        Raises
        ------
        ValueError
            If x or y is none of these, or the model did not record it.
        """
        check_fit(estimator)
        if x not in ("iteration", "time"):
            raise ValueError(f"x must be 'iteration' or 'time', found {x!r}.")
        display = cls._of_losses(estimator, x) if y == "loss" else cls._of_history(estimator, x, y)
        return display.plot(ax, label=label, **drawing)

    @classmethod
    def _of_history(cls, estimator: BaseEstimator, x: str, y: str) -> "ConvergenceDisplay":
        history = _history(estimator)
        names: list[str] = [name for name in ("objective", "violation", "gap") if name in history]
        if y not in names:
            names += ["loss"] if hasattr(estimator, "loss_curve_") else []
            raise ValueError(f"y must be one of {names} for {type(estimator).__name__}, found {y!r}.")
        step, of_y = "epoch", "objective" if y == "objective" else "relative duality gap"
        tol = estimator.tol if y != "objective" and getattr(estimator, "criterion", "gap") == "gap" else None
        if "problem" in history:
            of_y = objective_name(estimator) if y == "objective" else "largest violation"
            step = SOLVERS[estimator.solver].steps
            step = step if getattr(estimator, "learning_rate", None) is None else "gradient steps"
        column = "epoch" if x == "iteration" and "problem" not in history else x
        axis_names = ("time (s)" if x == "time" else step, of_y)
        return cls(problem_curves(estimator, column, y), axis_names=axis_names, tol=tol)

    @classmethod
    def _of_losses(cls, estimator: BaseEstimator, x: str) -> "ConvergenceDisplay":
        if getattr(estimator, "loss_curve_", None) is None:
            raise ValueError(f"y='loss' needs a loss_curve_, which {type(estimator).__name__} does not have.")
        curve = loss_curve(estimator, x)
        names = ("time (s)" if x == "time" else "mini-batch", "loss of a mini-batch")
        return cls([curve], axis_names=names, window=max(1, len(curve.y) // 50))

    @documented_by(Display)
    def plot(
        self, ax: Axes | None = None, *, label: str | None = None, legend: bool = True, **line_kwargs: Option
    ) -> "ConvergenceDisplay":
        """Draw the curves.

        Parameters
        ----------
        legend : bool, default=True
            Whether to draw a legend, if a curve has a name.
        """
        ax = self._axes_on(ax, (6.4, 4.0))
        self.lines_: list[Line2D] = []
        self.mean_lines_: list[Line2D] = []
        for curve, look in zip(self.curves, self._looks(label, line_kwargs), strict=True):
            self._draw(curve, look)
        if self.tol is not None:
            self._draw_tolerance(self.tol)
        if all(len(curve.x) == 1 for curve in self.curves):
            self._say_what_is_recorded(label)
        self._dress()
        if legend and ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=9)
        return self

    def _looks(self, label: str | None, line_kwargs: Look) -> list[Look]:
        """Return line properties: few curves of a model without a name have a colour and a name each."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        # "c" and "lw" are short for "color" and "linewidth".
        n, most = len(self.curves), current_tuning().look.ticks
        line_kwargs = normalize_kwargs(line_kwargs, Line2D)
        if label is None and n <= most:
            names = [curve.name if n > 1 or self.window > 1 else "_" for curve in self.curves]
            return [{"label": name} | line_kwargs for name in names]
        (unseen,) = self.ax_.plot([], [])  # takes the next colour
        unseen.remove()
        shared: Look = {"color": unseen.get_color()} | ({"alpha": 0.5, "linewidth": 1} if n > most else {})
        first = label or f"{n} two-class problems"
        return [shared | {"label": name} | line_kwargs for name in [first] + ["_"] * (n - 1)]

    def _draw(self, curve: Curve, look: Look) -> None:
        if self.window <= 1:
            mark: Look = {"marker": "o", "markersize": 4} if len(curve.x) < current_tuning().look.marked else {}
            self.lines_ += self.ax_.plot(curve.x, curve.y, **(mark | look))
            return
        alone = look["label"] == curve.name
        pale: Look = {"alpha": 0.3, "linewidth": 0.8, "label": curve.name if alone else "_", "gid": _PALE}
        self.lines_ += self.ax_.plot(curve.x, curve.y, **(look | pale))
        colour: Look = {"color": self.lines_[-1].get_color()}
        look = colour | look | ({"label": "running mean"} if alone else {})
        weights = np.full(self.window, 1 / self.window)
        middle, mean = (np.convolve(column, weights, "valid") for column in (curve.x, curve.y))
        self.mean_lines_ += self.ax_.plot(middle, mean, **look)

    def _draw_tolerance(self, tol: float) -> None:
        """Draw the tolerance, unless another model drew the same one in these axes."""
        there = [np.asarray(line.get_ydata())[0] for line in self.ax_.lines if line.get_gid() == _TOLERANCE]
        before = self.ax_.get_ylim()[0] if there else np.inf
        if tol not in there:
            look: Look = {"color": "0.3", "linestyle": "--", "linewidth": 1, "gid": _TOLERANCE}
            self.ax_.axhline(tol, label=f"tol = {tol:g}", **look)
        self.ax_.set_yscale("log", nonpositive="mask")  # which warns if no line has positive values
        self.ax_.autoscale(axis="y")  # for curves that came after the limits were set
        high = self.ax_.get_ylim()[1]
        largest = [curve.y.max() for curve in self.curves if curve.y.max() > 0]
        least = min([before, current_tuning().look.below * tol, *(gap / 3 for gap in largest)])
        self.ax_.set_ylim(least, max(high, 10 * tol))

    def _say_what_is_recorded(self, label: str | None) -> None:
        """Say, once in these axes, why there is no curve: such a fit takes one call, and records only its end."""
        if any(text.get_gid() == _ENDS for text in self.ax_.texts):
            return
        words = "solved in one call, which records its end alone"
        if len(self.curves) == 1 and label is None:
            (x,), (y,), (x_name, y_name) = self.curves[0].x, self.curves[0].y, self.axis_names
            words += f":\n{y_name} {y:.3g} at {x_name} {x:.3g}"
        self.ax_.set_xlim(0, 1.5 * max(curve.x[0] for curve in self.curves), auto=True)
        place: Look = {"transform": self.ax_.transAxes, "va": "top", "fontsize": 9, "color": "0.3", "gid": _ENDS}
        self.ax_.text(0.03, 0.6, words, **place)

    def _dress(self) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        self.ax_.grid(alpha=0.3)
        if not self.axis_names[0].startswith("time"):
            self.ax_.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
            self.ax_.xaxis.set_major_formatter("{x:,.0f}")
        if self.mean_lines_:  # losses of the first batches may dwarf all others
            tops = [
                np.quantile(np.asarray(line.get_ydata()), 0.99) for line in self.ax_.lines if line.get_gid() == _PALE
            ]
            self.ax_.set_ylim(0, 1.2 * max(tops))


def _history(estimator: BaseEstimator) -> dict[str, np.ndarray]:
    history = getattr(estimator, "history_", None)
    if not history:
        raise ValueError(f"This {type(estimator).__name__} has no history_; `fit` keeps one, `partial_fit` does not.")
    return history


# --- the numbers of the curves -----------------------------------------------------------------------------------


def objective_name(estimator: BaseEstimator) -> str:
    """Return whose objective the history of a kernel machine has."""
    return f"{'dual' if SOLVERS[estimator.solver].is_dual else 'primal'} objective"


def problem_curves(estimator: BaseEstimator, x: str, y: str, most: int | None = None) -> list[Curve]:
    """Return columns of the history as a curve for each two-class problem, or for a share of them if they are many."""
    history = estimator.history_
    if "problem" not in history or not hasattr(estimator, "classes_"):
        return [Curve(y, history[x], history[y])]
    problems, pairs = np.unique(history["problem"]).astype(int), list(combinations(estimator.classes_, 2))
    if most is not None:
        problems = problems[np.unique(np.linspace(0, len(problems) - 1, most).astype(int))]
    curves = []
    for number in problems.tolist():
        rows, (a, b) = history["problem"] == number, pairs[number]
        curves.append(Curve(f"{a} or {b}", history[x][rows], history[y][rows]))
    return curves


def loss_curve(estimator: BaseEstimator, x: str) -> Curve:
    """Return the losses of mini-batches, over their number or, for x="time", over the time of the fit."""
    losses = estimator.loss_curve_
    # With many batches, a point is the mean of 2, 4, 8, ... of them.
    of_point = 2 ** int(np.ceil(np.log2(max(1.0, (estimator.t_ - 1) / max(1, len(losses))))))
    steps = np.minimum(np.arange(1, len(losses) + 1) * of_point, estimator.t_ - 1)
    if x == "time":
        history = _history(estimator)
        steps = np.interp(steps, [0, *history["steps"]], [0.0, *history["time"]])
    return Curve("each mini-batch" if of_point == 1 else f"each {of_point} mini-batches", steps, losses)
