"""How the decision function of a compressed model differs from the model's, against the support vectors that stay."""

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm.compression import Compression, compress
from fastsvm.displays._canvas import Axes, Display, Line2D, Look, Option, pyplot
from fastsvm.estimators.fitting.documentation import documented, documented_by


@documented
class CompressionDisplay(Display):
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
    lines_ : list of Line2D
        The largest difference, and the root mean square of the differences.
    chosen_ : Line2D
        Mark of the compressed model.

    Examples
    --------
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
    @documented_by(Display)
    def from_estimator(
        cls, estimator: BaseEstimator, X: object, *, tol: float | None = 0.1, n_support: int | None = None,
        ax: Axes | None = None, **drawing: Option,
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

        Raises
        ------
        TypeError, ValueError
            As for `fastsvm.compress`.
        """
        pyplot()
        compression = compress(estimator, X, tol, n_support=n_support)
        bound = tol if n_support is None else None
        return cls(compression, n_before=len(estimator.support_), tol=bound).plot(ax, **drawing)

    @documented_by(Display)
    def plot(self, ax: Axes | None = None, *, legend: bool = True, **line_kwargs: Option) -> "CompressionDisplay":
        """Draw the curves.

        Parameters
        ----------
        legend : bool, default=True
            Whether to draw a legend.
        """
        ax = self._axes_on(ax, (6.4, 4.0))
        self.lines_: list[Line2D] = []
        curve, n = self.compression.curve, self.compression.n_support
        look: Look
        for name, words in (("max_difference", "largest"), ("rms_difference", "root mean square")):
            look = {"label": words}
            self.lines_ += ax.plot(curve["n_support"], curve[name], **(look | line_kwargs))
        mark: Look = {"marker": "o", "linestyle": "none", "color": self.lines_[0].get_color()}
        (self.chosen_,) = ax.plot([n], [self.compression.max_difference], label=f"{n:,} support vectors", **mark)
        grey: Look = {"color": "0.3", "linewidth": 1}
        if self.tol is not None:
            ax.axhline(self.tol, label=f"tol = {self.tol:g}", linestyle="--", **grey)
        if self.n_before is not None:
            ax.axvline(self.n_before, label=f"{self.n_before:,} before", linestyle=":", **grey)
        ax.set_xscale("log")
        if (np.concatenate([line.get_ydata() for line in self.lines_]) > 0).any():
            ax.set_yscale("log", nonpositive="mask")
        ax.set(xlabel="support vectors that stay", ylabel="difference of decision values")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(alpha=0.3)
        if legend:
            ax.legend(fontsize=9)
        return self
