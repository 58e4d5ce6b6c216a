"""The tube of a regressor, within which deviations cost nothing."""

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from fastsvm.displays._canvas import (
    Axes,
    Colours,
    Display,
    Look,
    Option,
    are_many,
    colours_of,
    point_look,
    pyplot,
    tint,
)
from fastsvm.displays._samples import circled_rows, column_of, decided, final_model, like, padded, rows_of
from fastsvm.estimators.fitting.documentation import documented, documented_by
from fastsvm.estimators.fitting.validation import labels_of
from fastsvm.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from fastsvm.tuning import current_tuning


@documented
class TubeDisplay(Display):
    """Predictions of a regressor with its tube of ± ε, the samples, and the support vectors.

    The vertical distance of a sample from the curve is its residual y - f(x). So the samples in the tube are those
    whose deviation costs nothing. Use `from_estimator` to compute what is drawn.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Places of the samples.
    curve : ndarray of shape (n_places, 2)
        Places of the curve, from left to right.
    epsilon : float
        Half width of the tube.
    axis_names : tuple of str, default=("feature 0", "target")
        Labels of the axes.

    Attributes
    ----------
    line_ : Line2D
        The curve.
    tube_ : FillBetweenPolyCollection
        The tube.
    edges_ : list of Line2D
        Its lower and its upper edge.
    points_ : PathCollection
        The samples.
    circles_ : PathCollection or None
        The circles.

    References
    ----------
    Larsen and McCleary (1972), The use of partial residual plots in regression analysis, Technometrics 14.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import SVR
    >>> from fastsvm.displays import TubeDisplay
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = SVR(C=10, epsilon=0.05).fit(X, y)
    >>> display = TubeDisplay.from_estimator(model, X, y)
    >>> display.epsilon, len(display.circled) == len(model.support_)
    (0.05, True)
    """

    def __init__(
        self,
        points: np.ndarray,
        curve: np.ndarray,
        epsilon: float,
        *,
        circled: np.ndarray | None = None,
        circled_name: str = "support vectors",
        axis_names: tuple[str, str] = ("feature 0", "target"),
    ) -> None:
        self.points, self.curve, self.epsilon = points, curve, epsilon
        self.circled, self.circled_name, self.axis_names = circled, circled_name, axis_names

    @classmethod
    @documented_by(Display)
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: object,
        y: object = None,
        *,
        feature: int | str | None = None,
        grid_resolution: int = 300,
        circle: bool = True,
        ax: Axes | None = None,
        **drawing: Option,
    ) -> "TubeDisplay":
        """Compute the curve of a fitted regressor and draw it.

        Parameters
        ----------
        estimator : SVR, NuSVR or another regressor with a tube
            Fitted. Its ε is `epsilon_`, or the parameter `epsilon` of an ε-insensitive loss. It may be the last step
            of a pipeline, or a search.
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, HDF5Data or Source, shape (n_samples, n_features)
            The samples of the fit; other samples need `circle=False`.
        y : array-like of shape (n_samples,) or None
            Targets; None uses those of an `HDF5Data`.
        feature : int, str or None, default=None
            Feature along which to draw, its number or its name. The curve holds the other features at their medians,
            and each sample is drawn above or below the curve by its residual. None is the only feature, or for more
            than one draws targets against predictions, where the curve is the diagonal.
        grid_resolution : int, default=300
            Number of places of the curve.
        circle : bool, default=True
            Whether to circle the samples of `support_`.

        Raises
        ------
        ValueError
            If targets are missing, too many or too few, there is no such feature, or samples are to be circled and X
            does not hold the samples of the fit.
        TypeError
            If the estimator is no regressor, or has no ε.
        """
        pyplot()
        check_is_fitted(estimator)
        epsilon = _epsilon_of(estimator)
        rows, names = rows_of(X)
        targets, target = labels_of(X, y), str(getattr(y, "name", None) or "target")
        if targets is None:
            raise ValueError("y is needed to draw the targets: none was passed and X does not bring any.")
        targets = column_of(targets, len(rows), "targets", np.float64)
        if grid_resolution < 2:
            raise ValueError(f"grid_resolution must be at least 2, found {grid_resolution}.")
        circled, name = circled_rows(estimator, rows) if circle else (None, "")
        fitted = decided(estimator, "predict", like(X, rows))
        column = _column_of(feature, names)
        if column is None:
            at = np.linspace(*padded(fitted), grid_resolution)
            points, curve = np.column_stack([fitted, targets]), np.column_stack([at, at])
            axis_names = "prediction f", target
        else:
            at = np.linspace(*padded(rows[:, column]), grid_resolution)
            curve = np.column_stack([at, _along(estimator, X, rows, column, at)])
            heights = targets
            axis_names = names[column], target
            if len(names) > 1:
                heights = _along(estimator, X, rows, column, rows[:, column]) + targets - fitted
                axis_names = names[column], "f at medians of the others, and residuals"
            points = np.column_stack([rows[:, column], heights])
        drawn = cls(points, curve, epsilon, circled=circled, circled_name=name, axis_names=axis_names)
        return drawn.plot(ax, **drawing)

    @documented_by(Display)
    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool | str = True,
        colors: Colours = None,
        points_kwargs: Look | None = None,
        line_kwargs: Look | None = None,
    ) -> "TubeDisplay":
        """Draw tube, curve, points and circles.

        Parameters
        ----------
        colors : sequence of two colours or None
            Colours of the samples and of the tube.
        line_kwargs : dict or None
            Parameters of matplotlib's `plot`, which draws the curve.
        """
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        many = are_many(self.points)
        legend = ("upper left" if many else "best") if legend is True else legend  # the best place is slow to find
        ax = self._axes_on(ax, (6.4, 4.4))
        colours, above = colours_of(2, colors), 4 if many else 2
        at, values = self.curve.T
        low, high = values - self.epsilon, values + self.epsilon
        edge: Look = {"color": "0.1", "linestyle": "--", "linewidth": 1, "zorder": above}
        pale = tint(colours[1], current_tuning().look.tube)
        self.tube_ = ax.fill_between(at, low, high, color=pale, linewidth=0, zorder=1)
        self.edges_ = [*ax.plot(at, low, **edge), *ax.plot(at, high, label=f"f ± {self.epsilon:.3g}", **edge)]
        line: Look = {"color": "0.1", "linewidth": 1.6, "zorder": above, "label": "f"}
        (self.line_,) = ax.plot(at, values, **(line | normalize_kwargs(line_kwargs or {}, Line2D)))
        look = point_look(self.points) | {"c": [colours[0]], "label": f"samples ({len(self.points):,})"}
        self.points_ = ax.scatter(*self.points.T, **(look | (points_kwargs or {})))
        self.circles_ = self._draw_circles(self.points, self.points_)
        ax.set(xlim=at[[0, -1]], xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        self._draw_legend(legend, [self.points_, self.circles_, self.line_, self.edges_[1]])
        return self


def _epsilon_of(estimator: BaseEstimator) -> float:
    """Return the half width of the tube."""
    if not is_regressor(estimator):
        raise TypeError(
            f"TubeDisplay draws regressors, found {type(estimator).__name__}. MarginDisplay draws classifiers and "
            "outlier detectors."
        )
    model = final_model(estimator)
    if hasattr(model, "epsilon_"):
        return float(model.epsilon_)
    parameters = model.get_params(deep=False)
    loss = parameters.get("loss", "epsilon_insensitive")
    if isinstance(loss, EpsilonInsensitive | SquaredEpsilonInsensitive):
        return float(loss.epsilon)
    if "epsilon_insensitive" not in str(loss):
        raise TypeError(f"{type(model).__name__}(loss={loss!r}) has no tube; only the epsilon-insensitive losses do.")
    if "epsilon" not in parameters:
        raise TypeError(
            f"{type(model).__name__} has neither epsilon_ nor the parameter epsilon, the half width of the tube. Pass "
            "what is to be drawn to TubeDisplay(points, curve, epsilon)."
        )
    return float(parameters["epsilon"])


def _column_of(feature: int | str | None, names: tuple[str, ...]) -> int | None:
    """Return the number of the feature along which to draw; None if there are many and none is chosen."""
    if feature is None:
        return 0 if len(names) == 1 else None
    column = names.index(feature) if feature in names else feature
    if isinstance(column, str) or not -len(names) <= column < len(names):
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(f"There is no feature {feature!r}; there are {len(names)}: {shown}.")
    return range(len(names))[column]


def _along(estimator: BaseEstimator, X: object, rows: np.ndarray, column: int, at: np.ndarray) -> np.ndarray:
    """Return predictions where one feature takes given values and the others their medians."""
    points = np.tile(np.median(rows, axis=0), (len(at), 1))
    points[:, column] = at
    return decided(estimator, "predict", like(X, points))
