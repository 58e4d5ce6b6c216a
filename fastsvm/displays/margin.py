"""What a classifier of two features decides, where, and which rows decide it."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from fastsvm.displays._canvas import axes_on, colours_of, legend_on, pyplot, tint
from fastsvm.displays._plane import Points

__all__ = ["MarginDisplay"]

_DEEPEST = {"decision_function": 2.0}  # value from which on the shade is the same; of other methods 1
_TINT = 0.5  # how much of a class's colour the deepest shade has
_CROWD = 500  # circles from which on they are drawn faintly
_RINGS = {"support_": "support vectors", "within_margin_": "rows within the margin"}


class MarginDisplay:
    """Decision values of a classifier of two features, its boundary and margins, and the rows.

    `from_estimator` computes what is drawn.

    Parameters
    ----------
    points : Points
        The rows, their labels, the classes, and the names of the features.
    grid : tuple of ndarray, each of shape (grid_resolution,)
        Values of the first and of the second feature.
    response : ndarray of shape (grid_resolution, grid_resolution)
        In row r and column c what the model says of (grid[0][c], grid[1][r]): the decision value of two classes,
        which is positive for the second, else the number of the predicted class.
    circled : ndarray of int or None, default=None
        Row numbers of the points that are circled.
    circled_name : str, default="support vectors"
        What the legend calls them.
    shade : ndarray of shape (grid_resolution, grid_resolution) or None, default=None
        Of two classes, how deep the colour is at each place, from -1, all of the first, to 1, all of the second; None
        follows the decision values.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure of the axes.
    image_ : AxesImage
        The shades.
    lines_ : QuadContourSet or None
        Boundary and margins, of those that are in view.
    points_ : list of PathCollection
        The points of each class.
    circles_ : PathCollection or None
        The circles.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
    ) -> None:
        self.points, self.grid, self.response = points, grid, response
        self.circled, self.circled_name = circled, circled_name
        self.shade = _depth(response, "decision_function") if shade is None else shade

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        grid_resolution: int = 200,
        circle: bool = True,
        shade_by: str = "decision_function",
        ax: Any = None,
        **drawing: Any,
    ) -> "MarginDisplay":
        """Ask a fitted classifier for its decision values, and draw them.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `decision_function`; for more than two classes `predict` is enough. A pipeline or a search may
            hold it.
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, HDF5Data or Source, shape (n_samples, 2)
            The rows of the fit; others with `circle=False`.
        y : array-like of shape (n_samples,) or None
            Labels; None takes those that come with an `HDF5Data`.
        grid_resolution : int, default=200
            Values of each feature for which the model is asked.
        circle : bool, default=True
            Whether rows are circled: those of `support_`, or of `within_margin_` if the model has it and it names
            others.
        shade_by : str, default="decision_function"
            Of two classes, the method of the estimator that the shades follow: "decision_function"; "predict", for one
            shade a class; or another with values from -1 to 1, such as "soft_decision" of `SGDClassifier`. The lines
            are those of the decision values in any case.
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        **drawing
            For `plot`.

        Returns
        -------
        MarginDisplay

        Raises
        ------
        ValueError
            If there are not two features, labels are missing or unknown to the model, or X are not the rows of the
            fit though some are to be circled.
        TypeError
            If a classifier of two classes has no `decision_function`.
        ImportError
            If matplotlib is missing.
        """
        pyplot()
        check_is_fitted(estimator)
        points = Points.of(X, y, estimator.classes_)
        if grid_resolution < 2:
            raise ValueError(f"grid_resolution must be at least 2, found {grid_resolution}.")
        circled, name = _circled(estimator, points.X) if circle else (None, "")
        grid = tuple(np.linspace(*ends, grid_resolution) for ends in points.limits())
        places = np.stack(np.meshgrid(*grid), axis=-1)
        rows = _like(X, places.reshape(-1, 2))
        response = _response(estimator, rows).reshape(places.shape[:2])
        shade = None
        if shade_by != "decision_function" and len(estimator.classes_) == 2:
            shade = _depth(_response(estimator, rows, shade_by), shade_by).reshape(response.shape)
        return cls(points, grid, response, circled=circled, circled_name=name, shade=shade).plot(ax, **drawing)

    def plot(
        self,
        ax: Any = None,
        *,
        legend: bool | str = True,
        colors: Any = None,
        points_kwargs: dict[str, Any] | None = None,
        lines_kwargs: dict[str, Any] | None = None,
    ) -> "MarginDisplay":
        """Draw shades, lines, points and circles.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        legend : bool or str, default=True
            Whether there is a legend, or where within the axes.
        colors : sequence of colours or None
            One a class.
        points_kwargs : dict or None
            For matplotlib's `scatter`, which draws the points.
        lines_kwargs : dict or None
            For matplotlib's `contour`, which draws boundary and margins.

        Returns
        -------
        MarginDisplay
            The display itself.
        """
        legend = "beside" if ax is None and legend is True else self.points.place_of(legend)
        ax = axes_on(ax, (6.4, 4.4))
        colours = colours_of(len(self.points.classes), colors)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_shades(colours)
        handles = self._draw_lines(lines_kwargs or {})
        self.points_ = self.points.draw(ax, colours, **(points_kwargs or {}))
        self._draw_circles()
        ax.set(xlim=self.grid[0][[0, -1]], ylim=self.grid[1][[0, -1]])
        rings = [] if self.circles_ is None else [self.circles_]
        legend_on(ax, legend, [*self.points_, *rings, *handles])
        return self

    def _draw_shades(self, colours: np.ndarray) -> None:
        if len(colours) == 2:
            shades = tint(colours[(self.shade > 0).astype(int)], _TINT * np.abs(self.shade))
        else:
            shades = tint(colours[self.response], 0.8 * _TINT)
        halves = [np.array([-0.5, 0.5]) * (values[1] - values[0]) for values in self.grid]
        extent = [*(self.grid[0][[0, -1]] + halves[0]), *(self.grid[1][[0, -1]] + halves[1])]
        self.image_ = self.ax_.imshow(
            shades, extent=extent, origin="lower", aspect="auto", interpolation="bilinear", zorder=0
        )

    def _draw_lines(self, look: dict[str, Any]) -> list[Any]:
        """Draw the levels that are in view, of others matplotlib warns; return what a legend shows of them."""
        from matplotlib.lines import Line2D
        from matplotlib.patheffects import withStroke

        self.lines_ = None
        if len(self.points.classes) > 2:
            return []
        inside = [level for level in (-1, 0, 1) if self.response.min() < level < self.response.max()]
        styles = ["-" if level == 0 else "--" for level in inside]
        above = 4 if self.points.are_many() else 2
        look = {"colors": "0.1", "linestyles": styles, "linewidths": 1.4, "zorder": above} | look
        if inside:
            self.lines_ = self.ax_.contour(*self.grid, self.response, inside, **look)
            if self.points.are_many():
                self.lines_.set_path_effects([withStroke(linewidth=3.5, foreground="white")])
        names = {"f = 0": "-"} if 0 in inside else {}
        names |= {"f = ±1": "--"} if set(inside) - {0} else {}
        return [Line2D([], [], color="0.1", linestyle=style, label=name) for name, style in names.items()]

    def _draw_circles(self) -> None:
        self.circles_ = None
        if self.circled is None:
            return
        name, size = f"{self.circled_name} ({len(self.circled):,})", 3 * self.points_[0].get_sizes()[0]
        look = {"s": size, "facecolors": "none", "edgecolors": "0.1", "linewidths": 0.8, "zorder": 3}
        if len(self.circled) > _CROWD:
            look |= {"alpha": 0.3, "linewidths": 0.4, "rasterized": True}
        self.circles_ = self.ax_.scatter(*self.points.X[self.circled].T, label=name, **look)


def _circled(estimator: Any, X: np.ndarray) -> tuple[np.ndarray | None, str]:
    """Return the numbers of the rows that decide, and what they are; None if the model does not tell."""
    model = _within(estimator)
    found = {name: np.asarray(getattr(model, name, ())) for name in _RINGS}
    found = {name: rows for name, rows in found.items() if rows.dtype.kind in "iu"}  # selectors have a mask `support_`
    support = found.get("support_", np.empty(0, np.int64))
    for name, rows in found.items():
        if rows.max(initial=-1) >= len(X) or not _are_those(model, support, X, model is estimator):
            raise ValueError(
                f"X is not what the model was fitted to: {name} names other rows. Pass the rows of the fit, or "
                "circle=False."
            )
    others = [name for name, rows in found.items() if set(rows.tolist()) != set(support.tolist())]
    name = next(iter([*others, *found]), "")
    return found.get(name), _RINGS.get(name, "")


def _within(estimator: Any) -> Any:
    """Return the classifier in a search or at the end of a pipeline."""
    while hasattr(estimator, "best_estimator_") or hasattr(estimator, "steps"):
        estimator = estimator.best_estimator_ if hasattr(estimator, "best_estimator_") else estimator.steps[-1][1]
    return estimator


def _are_those(model: Any, rows: np.ndarray, X: np.ndarray, direct: bool) -> bool:
    """Return whether the support vectors are those rows of X, as far as it can be known."""
    vectors = getattr(model, "support_vectors_", None)
    if not direct or vectors is None or vectors.shape != (len(rows), 2):
        return True
    vectors = vectors.toarray() if sparse.issparse(vectors) else vectors
    return np.allclose(vectors, X[rows], rtol=1e-3)  # in whatever precision they were kept


def _like(X: Any, places: np.ndarray) -> Any:
    """Return places as a frame with the columns of X if that is one: pipelines may name them."""
    return type(X)(places, columns=X.columns) if hasattr(X, "iloc") else places


def _response(estimator: Any, places: Any, method: str = "decision_function") -> np.ndarray:
    """Return decision values of two classes, or what another method says, or the numbers of the predicted of more."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        if len(estimator.classes_) > 2:
            return np.searchsorted(estimator.classes_, estimator.predict(places))
        if not hasattr(estimator, method):
            asked = "of which margins are drawn" if method == "decision_function" else "which shades are to follow"
            raise TypeError(f"{type(estimator).__name__} has no {method}, {asked}.")
        found = getattr(estimator, method)(places)
    if method == "predict":
        return np.where(found == estimator.classes_[1], 1.0, -1.0)
    return np.asarray(found, dtype=np.float64).reshape(len(places))


def _depth(values: np.ndarray, method: str) -> np.ndarray:
    """Return what a method says as shades from -1 to 1."""
    return np.clip(values / _DEEPEST.get(method, 1.0), -1, 1)
