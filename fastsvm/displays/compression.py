"""How the decision function of a compressed model differs from the model's, against the support vectors that stay."""

from typing import Any

import numpy as np

from fastsvm.compression import Compression, compress
from fastsvm.displays._canvas import axes_on, pyplot

__all__ = ["CompressionDisplay"]


class CompressionDisplay:
    """Differences of decision values against the number of support vectors that stay.

    Use `from_estimator` to compress a fitted model and draw what was tried, or pass what `compress` returned.

    Parameters
    ----------
    compression : Compression
        What `fastsvm.compress` returned.
    n_before : int or None, default=None
        Number of support vectors of the model that was compressed, drawn as a vertical line.
    tol : float or None, default=None
        Tolerance, drawn as a horizontal line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of Line2D
        The largest difference, and the root mean square of the differences.
    chosen_ : Line2D
        Mark of the compressed model.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import fastsvm
    >>> from fastsvm.displays import CompressionDisplay
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.3, random_state=0)
    >>> display = CompressionDisplay.from_estimator(fastsvm.SVC().fit(X, y), X, tol=0.1)
    >>> display.compression.max_difference <= 0.1
    True
    """

    def __init__(self, compression: Compression, *, n_before: int | None = None, tol: float | None = None) -> None:
        self.compression, self.n_before, self.tol = compression, n_before, tol

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, tol: float | None = 0.1, n_support: int | None = None, ax: Any = None,
        **drawing: Any,
    ) -> "CompressionDisplay":  # fmt: skip
        """Compress a fitted model and draw what was tried.

        Parameters
        ----------
        estimator : SVC
            Fitted.
        X : as for `predict`, shape (n_samples, n_features)
            Rows on which the decision values are compared.
        tol : float or None, default=0.1
            Largest difference of a decision value on these rows.
        n_support : int or None, default=None
            Number of support vectors to keep; `tol` is ignored.
        ax : matplotlib Axes or None
            Axes to draw on; None makes a figure.
        **drawing
            Parameters of `plot`.

        Returns
        -------
        CompressionDisplay

        Raises
        ------
        TypeError, ValueError
            As for `fastsvm.compress`.
        ImportError
            If matplotlib is missing.
        """
        pyplot()
        found = compress(estimator, X, tol, n_support=n_support)
        shown = tol if n_support is None else None
        return cls(found, n_before=len(estimator.support_), tol=shown).plot(ax, **drawing)

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> "CompressionDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Axes to draw on; None makes a figure.
        legend : bool, default=True
            Whether to draw a legend.
        **line_kwargs
            For matplotlib's `plot`, which draws the curves.

        Returns
        -------
        CompressionDisplay
            The display itself.
        """
        ax = axes_on(ax, (6.4, 4.0))
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, []
        curve, found = self.compression.curve, self.compression
        for name, words in (("max_difference", "largest"), ("rms_difference", "root mean square")):
            self.lines_ += ax.plot(curve["n_support"], curve[name], **({"label": words} | line_kwargs))
        chosen = {"marker": "o", "linestyle": "none", "color": self.lines_[0].get_color()}
        (self.chosen_,) = ax.plot(
            [found.n_support], [found.max_difference], label=f"{found.n_support:,} support vectors", **chosen
        )
        grey = {"color": "0.3", "linewidth": 1}
        if self.tol is not None:
            ax.axhline(self.tol, label=f"tol = {self.tol:g}", linestyle="--", **grey)
        if self.n_before is not None:
            ax.axvline(self.n_before, label=f"{self.n_before:,} before", linestyle=":", **grey)
        positive = np.concatenate([line.get_ydata() for line in self.lines_]) > 0
        ax.set_xscale("log")
        ax.set_yscale("log" if positive.any() else "linear", **({"nonpositive": "mask"} if positive.any() else {}))
        ax.set(xlabel="support vectors that stay", ylabel="difference of decision values")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(alpha=0.3)
        if legend:
            ax.legend(fontsize=9)
        return self
