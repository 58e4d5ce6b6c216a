"""The line of a linear model after more and more iterations."""

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from fastsvm.displays._canvas import Axes, Colours, Display, Line2D, Look, Option, colours_of, lines_for_legend, pyplot
from fastsvm.displays._samples import Points
from fastsvm.estimators.fitting.documentation import documented, documented_by
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.kernels import Linear


@documented
class HyperplaneDisplay(Display):
    """Lines f = 0 of a linear model of two features after more and more iterations, the last with its margins.

    Use `from_estimator` to fit the models.

    Parameters
    ----------
    coef : ndarray of shape (n_lines, 2)
        Weights of each line.
    intercept : ndarray of shape (n_lines,)
        Intercept of each line.
    max_iters : sequence of int
        Number of iterations of each line.

    Attributes
    ----------
    lines_ : list of Line2D
        The lines f = 0, in the order of `max_iters`.
    margins_ : list of Line2D
        The lines f = -1 and f = 1 of the last fit.
    points_ : list of PathCollection
        The points of each class.
    colorbar_ : Colorbar
        Colours of the lines by iterations.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from fastsvm import SGDClassifier
    >>> from fastsvm.displays import HyperplaneDisplay
    >>> X, y = make_blobs(200, centers=2, random_state=0)
    >>> display = HyperplaneDisplay.from_estimator(SGDClassifier(random_state=0), X, y, max_iters=(1, 4, 1000))
    >>> display.coef.shape
    (3, 2)
    """

    def __init__(self, points: Points, coef: np.ndarray, intercept: np.ndarray, max_iters: Sequence[int]) -> None:
        self.points, self.coef, self.intercept, self.max_iters = points, coef, intercept, tuple(max_iters)

    @classmethod
    @documented_by(Display)
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: object,
        y: object = None,
        *,
        max_iters: Sequence[int] = (1, 3, 10, 30, 100, 1000),
        ax: Axes | None = None,
        **drawing: Option,
    ) -> "HyperplaneDisplay":
        """Fit a copy of the model with each `max_iter` and draw the lines.

        Parameters
        ----------
        estimator : classifier
            Linear, with the parameter `max_iter`, such as `SGDClassifier` or `SVC(kernel="linear")`; it is not changed
            and need not be fitted. All copies have the same `random_state`.
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, HDF5Data or Source, shape (n_samples, 2)
            Samples to fit and to draw.
        y : array-like of shape (n_samples,) or None
            Labels of two classes; None uses the labels of an `HDF5Data`.
        max_iters : sequence of int, default=(1, 3, 10, 30, 100, 1000)
            Iterations of each copy, in rising order: epochs of `SGDClassifier`, pair steps of `SVC`.

        Raises
        ------
        ValueError
            If there are not two features and two classes, the model is not linear or has no `max_iter`, or `max_iters`
            do not rise.

        Warns
        -----
        ConvergenceWarning
            If the last copy did not converge; the others do not warn.
        """
        pyplot()
        _check(estimator, max_iters)
        points = Points.of(X, y)
        if len(points.classes) != 2:
            raise ValueError(f"One line separates two classes; y has {len(points.classes)}.")
        models = [_fitted(estimator, X, y, steps, last=steps == max_iters[-1]) for steps in max_iters]
        coef = np.array([dense_coef(model).ravel() for model in models], dtype=np.float64)
        intercept = np.array([np.ravel(model.intercept_)[0] for model in models], dtype=np.float64)
        return cls(points, coef, intercept, max_iters).plot(ax, **drawing)

    @documented_by(Display)
    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool | str = True,
        colors: Colours = None,
        cmap: str = "viridis_r",
        points_kwargs: Look | None = None,
    ) -> "HyperplaneDisplay":
        """Draw points and lines.

        Parameters
        ----------
        colors : sequence of colours or None
            A colour for each of the two classes.
        cmap : str, default="viridis_r"
            Colour map of the lines, from first to last.
        """
        ax = self._axes_on(ax, (6.4, 4.4))
        look = {"alpha": 0.55} | (points_kwargs or {})
        self.points_ = self.points.draw(ax, colours_of(2, colors), **look)
        self._draw_lines(cmap)
        limits = self.points.limits()
        ax.set(xlim=limits[0], ylim=limits[1])
        names = {"f = 0, last": "-", "f = ±1, last": "--"}
        handles = [*self.points_, *lines_for_legend(names, self.margins_[0].get_color())]
        self._draw_legend(self.points.place_of(legend), handles)
        return self

    def _draw_lines(self, cmap: str) -> None:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import BoundaryNorm, ListedColormap

        n = len(self.max_iters)
        colours = ListedColormap(colormaps[cmap](np.linspace(0.08, 1, n)))  # the palest are invisible on white
        looks = [{"color": colours(k), "linewidth": 1.6, "zorder": 3} for k in range(n)]
        looks[-1]["linewidth"] = 2.6
        segments = self._segments(slice(None), 0.0)
        self.lines_ = [self._line(ends, look) for ends, look in zip(segments, looks, strict=True)]
        dashed = looks[-1] | {"linestyle": "--", "linewidth": 1.4}
        self.margins_ = [self._line(self._segments(slice(-1, None), level)[0], dashed) for level in (-1.0, 1.0)]
        shown = ScalarMappable(BoundaryNorm(np.arange(n + 1) - 0.5, n), colours)
        self.colorbar_ = self.figure_.colorbar(shown, ax=self.ax_, ticks=np.arange(n), label="max_iter")
        self.colorbar_.set_ticklabels([f"{steps:,}" for steps in self.max_iters])
        self.colorbar_.ax.minorticks_off()

    def _line(self, ends: np.ndarray, look: Look) -> Line2D:
        return self.ax_.plot(*ends.T, **look)[0]

    def _segments(self, which: slice, level: float) -> np.ndarray:
        """Return ends of the lines f = level, shape (n_lines, 2, 2), outside the limits; nan where weights are 0."""
        coef, intercept, limits = self.coef[which], self.intercept[which], self.points.limits()
        middle, length = limits.mean(axis=1), np.linalg.norm(np.diff(limits))
        sq_norm = np.sum(coef**2, axis=1, keepdims=True)
        sq_norm[sq_norm == 0] = np.nan
        foot = middle - coef * ((coef @ middle + intercept - level)[:, None] / sq_norm)
        along = coef[:, ::-1] * [-1, 1] / np.sqrt(sq_norm) * length
        return np.stack([foot - along, foot + along], axis=1)


def _check(estimator: BaseEstimator, max_iters: Sequence[int]) -> None:
    if "max_iter" not in estimator.get_params():
        raise ValueError(f"{type(estimator).__name__} has no parameter max_iter.")
    kernel = getattr(estimator, "kernel", "linear")
    if kernel != "linear" and not isinstance(kernel, Linear):
        raise ValueError(f"The model must be linear, found kernel={kernel!r}.")
    if len(max_iters) == 0 or list(max_iters) != sorted(set(max_iters)) or max_iters[0] < 1:
        raise ValueError(f"max_iters must be positive numbers that rise, found {tuple(max_iters)}.")


def _fitted(estimator: BaseEstimator, X: object, y: object, max_iter: int, last: bool) -> BaseEstimator:
    """Return a fitted copy; all copies have the same `random_state`."""
    model = clone(estimator).set_params(max_iter=max_iter)
    if model.get_params().get("random_state", 0) is None:
        model.set_params(random_state=0)
    with warnings.catch_warnings():
        if not last:
            warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    if not hasattr(model, "coef_"):
        raise ValueError(f"The model must be linear: {type(model).__name__} has no coef_.")
    return model
