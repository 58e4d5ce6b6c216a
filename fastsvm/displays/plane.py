"""What models say of one or two features: regions with margins, and tubes."""

import numpy as np
from sklearn.base import BaseEstimator, is_outlier_detector, is_regressor

from fastsvm.displays._canvas import Artist, Axes, Colours, Display, Look, Option, are_many, check_fit, colours_of, tint
from fastsvm.displays._samples import Points, circled_rows, column_of, decided, final_model, places, point_look, rows_of
from fastsvm.estimators.fitting.documentation import documented, documented_by
from fastsvm.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from fastsvm.tuning import current_tuning

_DETECTED = np.array(["outliers", "inliers"])


@documented
class MarginDisplay(Display):
    """Decision values of a classifier or an outlier detector of two features, with its boundary and the samples.

    A classifier of two classes has margins too. Use `from_estimator` to compute them.

    Parameters
    ----------
    grid : tuple of ndarray, each of shape (grid_resolution,)
        Values of the first and of the second feature.
    response : ndarray of shape (grid_resolution, grid_resolution)
        Row r and column c belong to the point (grid[0][c], grid[1][r]). For two classes this is the decision value,
        positive for the second class, else the number of the predicted class.
    shade : ndarray of shape (grid_resolution, grid_resolution) or None, default=None
        For two classes, the depth of the colour at each point, from -1 for the first class to 1 for the second; None
        uses the decision values.
    levels : tuple of float, default=(-1, 0, 1)
        Decision values of the lines, for two classes.

    Attributes
    ----------
    image_ : AxesImage
        The shades.
    lines_ : QuadContourSet or None
        Boundary and margins that are in view.
    points_ : list of PathCollection
        The points of each class.
    circles_ : PathCollection or None
        The circles.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from fastsvm import SVC
    >>> from fastsvm.displays import MarginDisplay
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = SVC(C=10).fit(X, y)
    >>> display = MarginDisplay.from_estimator(model, X, y)
    >>> len(display.circled) == len(model.support_)
    True
    """

    def __init__(
        self,
        points: Points,
        grid: tuple[np.ndarray, np.ndarray],
        response: np.ndarray,
        *,
        circled: np.ndarray | None = None,
        circled_name: str = "support vectors",
        shade: np.ndarray | None = None,
        levels: tuple[float, ...] = (-1, 0, 1),
    ) -> None:
        self.points, self.grid, self.response = points, grid, response
        self.circled, self.circled_name, self.levels = circled, circled_name, levels
        self.shade = _depth(response, "decision_function") if shade is None else shade

    @classmethod
    @documented_by(Display)
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: object,
        y: object = None,
        *,
        grid_resolution: int = 200,
        circle: bool = True,
        shade_by: str = "decision_function",
        ax: Axes | None = None,
        **drawing: Option,
    ) -> "MarginDisplay":
        """Compute the decision values of a fitted model and draw them.

        Parameters
        ----------
        estimator : classifier or outlier detector
            Fitted, with `decision_function`; for more than two classes `predict` is enough. It may be a pipeline or a
            search. The decision values of outlier detectors, such as `OneClassSVM`, have no scale, so that the line
            is f = 0 and the deepest shades are the extreme values in view.
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, HDF5Data or Source, shape (n_samples, 2)
            The samples of the fit; other samples need `circle=False`.
        y : array-like of shape (n_samples,) or None
            Labels; None uses the labels of an `HDF5Data`. For outlier detectors -1 for outliers and 1 for inliers;
            None uses what the model predicts.
        grid_resolution : int, default=200
            Number of values of each feature at which the model is evaluated.
        shade_by : str, default="decision_function"
            For two classes, the method of the estimator whose values the shades show: "decision_function"; "predict",
            for one shade a class; or another with values from -1 to 1, such as "soft_decision" of `SGDClassifier`. The
            lines always show the decision values.

        Raises
        ------
        ValueError
            If there are not two features, labels are missing or unknown to the model, or samples are to be circled and
            X does not hold the samples of the fit.
        TypeError
            If the estimator is neither a classifier nor an outlier detector, or has no `decision_function`.
        """
        check_fit(estimator)
        points = _points_of(estimator, X, y)
        circled, name = circled_rows(estimator, points.X) if circle else (None, "")
        grid = places(points.X[:, 0], grid_resolution), places(points.X[:, 1], grid_resolution)
        points_of_grid = np.stack(np.meshgrid(*grid), axis=-1)
        rows = points_of_grid.reshape(-1, 2)
        response, shade = _response(estimator, X, rows).reshape(points_of_grid.shape[:2]), None
        levels: tuple[float, ...] = (-1, 0, 1)
        if is_outlier_detector(estimator):  # values of either sign are shaded by their share of the largest
            largest = [max(float(np.max(sign * response)), np.finfo(float).tiny) for sign in (-1, 1)]
            shade, levels = response / np.where(response > 0, largest[1], largest[0]), (0,)
            drawing = {"colors": colours_of(2)[::-1]} | drawing  # what is usual has the first colour
        if shade_by != "decision_function" and len(points.classes) == 2:
            shade = _depth(_response(estimator, X, rows, shade_by), shade_by).reshape(points_of_grid.shape[:2])
        drawn = cls(points, grid, response, circled=circled, circled_name=name, shade=shade, levels=levels)
        return drawn.plot(ax, **drawing)

    @documented_by(Display)
    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool | str = True,
        colors: Colours = None,
        points_kwargs: Look | None = None,
        lines_kwargs: Look | None = None,
    ) -> "MarginDisplay":
        """Draw shades, lines, points and circles.

        Parameters
        ----------
        lines_kwargs : dict or None
            Parameters of matplotlib's `contour`, which draws boundary and margins.
        """
        legend = "beside" if ax is None and legend is True else self.points.place_of(legend)
        ax = self._axes_on(ax, (6.4, 4.4))
        colours = colours_of(len(self.points.classes), colors)
        self._draw_shades(colours)
        handles = self._draw_lines(lines_kwargs or {})
        self.points_ = self.points.draw(ax, colours, **(points_kwargs or {}))
        self.circles_ = self._draw_circles(self.points.X, self.points_[0])
        ax.set(xlim=self.grid[0][[0, -1]], ylim=self.grid[1][[0, -1]])
        self._draw_legend(legend, [*self.points_, self.circles_, *handles])
        return self

    def _draw_shades(self, colours: np.ndarray) -> None:
        if len(colours) == 2:
            shades = tint(colours[(self.shade > 0).astype(int)], current_tuning().look.tint * np.abs(self.shade))
        else:
            shades = tint(colours[self.response], 0.8 * current_tuning().look.tint)
        halves = [np.array([-0.5, 0.5]) * (values[1] - values[0]) for values in self.grid]
        extent = np.concatenate([values[[0, -1]] + half for values, half in zip(self.grid, halves, strict=True)])
        look: Look = {"extent": extent, "origin": "lower", "aspect": "auto", "interpolation": "bilinear", "zorder": 0}
        self.image_ = self.ax_.imshow(shades, **look)

    def _draw_lines(self, look: Look) -> list[Artist]:
        """Draw the levels that are in view, since matplotlib warns of others; return handles for a legend."""
        from matplotlib.lines import Line2D
        from matplotlib.patheffects import withStroke

        self.lines_ = None
        if len(self.points.classes) > 2:
            return []
        inside = [level for level in self.levels if self.response.min() < level < self.response.max()]
        styles = ["-" if level == 0 else "--" for level in inside]
        above = 4 if are_many(self.points.X) else 2
        usual: Look = {"colors": "0.1", "linestyles": styles, "linewidths": 1.4, "zorder": above}
        if inside:
            self.lines_ = self.ax_.contour(*self.grid, self.response, inside, **(usual | look))
            if are_many(self.points.X):
                self.lines_.set_path_effects([withStroke(linewidth=3.5, foreground="white")])
        names = {"f = 0": "-"} if 0 in inside else {}
        others = sorted({abs(level) for level in inside} - {0})
        names |= {"f = " + ", ".join(f"±{level:g}" for level in others): "--"} if others else {}
        looks: list[Look] = [{"color": "0.1", "linestyle": style, "label": name} for name, style in names.items()]
        return [Line2D([], [], **look) for look in looks]


def _classes_of(estimator: BaseEstimator) -> np.ndarray:
    """Return the classes, from the negative to the positive side."""
    if is_outlier_detector(estimator):
        return np.array([-1, 1])
    if not hasattr(estimator, "classes_"):
        raise TypeError(
            f"MarginDisplay draws classifiers and outlier detectors, found {type(estimator).__name__}, which has no "
            "classes_. TubeDisplay draws regressors."
        )
    return estimator.classes_


def _points_of(estimator: BaseEstimator, X: object, y: object) -> Points:
    """Return samples with their labels; those without labels of an outlier detector have its predictions."""
    classes = _classes_of(estimator)
    if not is_outlier_detector(estimator):
        return Points.of(X, y, classes)
    if y is None:
        y = decided(estimator, "predict", X, rows_of(X)[0])
    points = Points.of(X, y, classes)
    return points._replace(y=_DETECTED[(points.y == 1).astype(int)], classes=_DETECTED)


def _response(estimator: BaseEstimator, X: object, rows: np.ndarray, method: str = "decision_function") -> np.ndarray:
    """Return the values of a method for two classes, the numbers of predicted classes for more."""
    classes = _classes_of(estimator)
    if len(classes) > 2:
        return np.searchsorted(classes, decided(estimator, "predict", X, rows))
    if not hasattr(estimator, method):
        purpose = "of which margins are drawn" if method == "decision_function" else "which shades are to follow"
        raise TypeError(f"{type(estimator).__name__} has no {method}, {purpose}.")
    values = decided(estimator, method, X, rows)
    return np.where(values == classes[1], 1.0, -1.0) if method == "predict" else values.astype(np.float64).ravel()


def _depth(values: np.ndarray, method: str) -> np.ndarray:
    """Return the values of a method as shades from -1 to 1; those of decision values of -2 and 2 are deepest."""
    return np.clip(values / 2 if method == "decision_function" else values, -1, 1)


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

        Raises
        ------
        ValueError
            If targets are missing, too many or too few, there is no such feature, or samples are to be circled and X
            does not hold the samples of the fit.
        TypeError
            If the estimator is no regressor, or has no ε.
        """
        check_fit(estimator)
        epsilon = _epsilon_of(estimator)
        rows, names = rows_of(X)
        targets = column_of(X, y, len(rows), "targets", np.float64)
        target = str(getattr(y, "name", None) or "target")
        circled, name = circled_rows(estimator, rows) if circle else (None, "")
        fitted = decided(estimator, "predict", X, rows)
        column = _column_of(feature, names)
        if column is None:
            at = places(fitted, grid_resolution)
            points, curve = np.column_stack([fitted, targets]), np.column_stack([at, at])
            axis_names = "prediction f", target
        else:
            at = places(rows[:, column], grid_resolution)
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
    return decided(estimator, "predict", X, points)
