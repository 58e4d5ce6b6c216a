"""The map of a search: scores over two parameters."""

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm.displays._canvas import Axes, Display, Look, Option, check_fit
from fastsvm.estimators.fitting.documentation import documented, documented_by


@documented
class SearchDisplay(Display):
    """Mean scores of a search over two parameters, with the way to the best cell.

    Use `from_search` to take them from a fitted `SVCSearch`, or any search of scikit-learn. Cells that were scored from
    a part of the samples are small. Rings are around cells whose score is within a standard error of the best.

    Parameters
    ----------
    values : ndarray of shape (n_cells, 2)
        Values of both parameters, positive, in the order of evaluation.
    scores : ndarray of shape (n_cells,)
        Mean scores.
    n_samples : ndarray of shape (n_cells,)
        Numbers of samples from which the cells were scored.
    chosen : int
        Number of the best cell.
    error : float
        Standard error of its score.
    names : tuple of str
        Names of both parameters.

    Attributes
    ----------
    cells_ : PathCollection
        Cells, coloured by score.
    path_ : Line2D
        The best cell so far, from the first to the last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fastsvm import SVCSearch
    >>> from fastsvm.displays import SearchDisplay
    >>> search = SVCSearch().fit(*load_iris(return_X_y=True))
    >>> display = SearchDisplay.from_search(search)
    >>> display.names
    ('C', 'gamma')
    """

    def __init__(
        self,
        values: np.ndarray,
        scores: np.ndarray,
        n_samples: np.ndarray,
        chosen: int,
        error: float,
        names: tuple[str, str],
    ) -> None:
        self.values, self.scores, self.n_samples = values, scores, n_samples
        self.chosen, self.error, self.names = chosen, error, names

    @classmethod
    @documented_by(Display)
    def from_search(
        cls, search: BaseEstimator, names: tuple[str, str] | None = None, *, ax: Axes | None = None, **drawing: Option
    ) -> "SearchDisplay":
        """Take the scores of a fitted search and draw them. Of other parameters, cells have the chosen values.

        Parameters
        ----------
        search : SVCSearch
            Fitted, with one score, or with a name as `refit`.
        names : tuple of str or None, default=None
            Parameters of the axes. None are the first two that have several positive numbers as values.

        Raises
        ------
        ValueError
            If the search has no two such parameters.
        """
        check_fit(search)
        results, best = search.cv_results_, search.best_index_
        cells = results["params"]
        if names is None:
            varied = [name for name in cells[best] if _is_axis([cell.get(name) for cell in cells])]
            if len(varied) < 2:
                raise ValueError(f"A map needs two parameters with several positive numbers, found {varied}.")
            names = varied[0], varied[1]
        fixed = {name: value for name, value in cells[best].items() if name not in names}
        kept = [k for k, cell in enumerate(cells) if {**cell, **fixed} == cell]
        metric = search.refit if search.multimetric_ else "score"
        deviation = results[f"std_test_{metric}"][best] * (search.n_splits_ / max(1, search.n_splits_ - 1)) ** 0.5
        values = np.array([[cells[k][name] for name in names] for k in kept], np.float64)
        n_samples = np.asarray(results.get("n_resources", np.ones(len(cells))))[kept]
        error = float(deviation / search.n_splits_**0.5)
        scores = np.asarray(results[f"mean_test_{metric}"])[kept]
        return cls(values, scores, n_samples, kept.index(best), error, names).plot(ax, **drawing)

    @documented_by(Display)
    def plot(self, ax: Axes | None = None, *, cmap: str = "viridis", legend: bool = True) -> "SearchDisplay":
        """Draw the map.

        Parameters
        ----------
        cmap : str, default="viridis"
            Colour map of the scores.
        legend : bool, default=True
            Whether to draw a legend, above the axes.
        """
        ax = self._axes_on(ax, (7.6, 4.4))
        whole, shown = self.n_samples == self.n_samples[self.chosen], np.isfinite(self.scores)
        order = np.flatnonzero(shown)[np.argsort(self.n_samples[shown], kind="stable")]  # all on top
        best = self.scores[self.chosen]
        near = self.values[whole & shown & (self.scores >= best - self.error)]
        x, y = self.values.T
        look: Look = {"s": np.where(whole, 130, 45)[order], "c": self.scores[order], "cmap": cmap, "zorder": 3}
        self.cells_ = ax.scatter(x[order], y[order], **look)
        look = {"s": 240, "facecolors": "none", "edgecolors": "0.2", "zorder": 4, "label": "within a standard error"}
        rings = ax.scatter(near[:, 0], near[:, 1], **look)
        way = self._way()
        (self.path_,) = ax.plot(x[way], y[way], color="0.5", linewidth=1, label="the best so far", zorder=2)
        look = {"color": "#D55E00", "markersize": 15, "zorder": 5, "label": f"{best:.4g} ± {self.error:.2g}, chosen"}
        (star,) = ax.plot(x[self.chosen], y[self.chosen], "*", **look)
        ax.set(xscale="log", yscale="log", xlabel=self.names[0], ylabel=self.names[1])
        ax.margins(0.08)
        ax.grid(alpha=0.3)
        ax.figure.colorbar(self.cells_, ax=ax, label="mean score")
        if legend:
            above: Look = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3, "frameon": False}
            ax.legend(handles=[star, rings, self.path_], fontsize=9, **above)
        return self

    def _way(self) -> list[int]:
        """Return the numbers of cells that were the best of their number of samples when they were scored."""
        way: list[int] = []
        for k, score in enumerate(self.scores):
            is_new = not way or self.n_samples[way[-1]] != self.n_samples[k]
            if np.isfinite(score) and (is_new or score > self.scores[way[-1]]):
                way.append(k)
        return way


def _is_axis(values: list) -> bool:
    """Return whether values are different positive numbers."""
    numbers = all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in values)
    return numbers and min(values) > 0 and len(set(values)) > 1
