"""The weights of a linear model of images, as images."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fastsvm.displays._canvas import Axes, AxesImage, Display, Figure, Option, figure_on, pyplot
from fastsvm.displays._samples import as_images, names_of
from fastsvm.estimators.fitting.documentation import documented_by
from fastsvm.estimators.linear.prediction import dense_coef


class TemplatesDisplay:
    """Weights of a linear model of images, drawn as an image for each class.

    Use `from_estimator` to take them from a fitted model.

    Parameters
    ----------
    templates : ndarray of shape (n_templates, height, width) or (n_templates, height, width, 3)
        Weights.
    names : list of str
        Title of each image.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, shape (n_templates,)
        Axes of each image.
    figure_ : matplotlib Figure
        Figure of the axes.
    images_ : list of AxesImage
        The images: weights divided by the scale of their image; in colour, mapped from [-1, 1] to [0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from fastsvm import SGDClassifier
    >>> from fastsvm.displays import TemplatesDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SGDClassifier(loss="softmax", alpha=0.1, random_state=0).fit(X, y)
    >>> display = TemplatesDisplay.from_estimator(model, (8, 8))
    >>> display.templates.shape
    (10, 8, 8)
    """

    def __init__(self, templates: np.ndarray, names: list[str]) -> None:
        self.templates, self.names = templates, names

    @classmethod
    @documented_by(Display)
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        image_shape: tuple[int, ...],
        *,
        class_names: Sequence[str] | None = None,
        channels: str | None = None,
        figure: Figure | None = None,
        **drawing: Option,
    ) -> "TemplatesDisplay":
        """Take the weights of a fitted model and draw them.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `coef_`: an image for each class, one image for two classes, and one for each pair of classes
            of `SVC`.
        image_shape : tuple of int
            Shape of the image in a row: (h, w), (c, h, w) or (h, w, c), with 1 or 3 channels.
        class_names : sequence of str or None
            Names of the classes in the order of `classes_`.
        figure : matplotlib Figure, SubFigure or None
            Figure to draw on; None makes one.

        Raises
        ------
        ValueError
            If the model has no `coef_`, or names or shape do not fit the model.
        """
        pyplot()
        check_is_fitted(estimator)
        if not hasattr(estimator, "coef_"):
            raise ValueError(f"This {type(estimator).__name__} has no coef_: only linear models have templates.")
        coef = dense_coef(estimator)
        templates = as_images(coef, image_shape, channels)
        return cls(templates, _titles(estimator, len(coef), class_names)).plot(figure, **drawing)

    @documented_by(Display)
    def plot(
        self,
        figure: Figure | None = None,
        *,
        n_columns: int | None = None,
        quantile: float = 0.995,
        cmap: str = "RdBu",
    ) -> "TemplatesDisplay":
        """Draw the images, each with its own scale, which is symmetric around 0.

        Parameters
        ----------
        figure : matplotlib Figure, SubFigure or None
            Figure to draw on; None makes one.
        n_columns : int or None
            Number of images in a row.
        quantile : float, default=0.995
            Quantile of the absolute weights of an image that is its scale; larger weights have the last colour.
        cmap : str, default="RdBu"
            Diverging colour map of images without colours.
        """
        n = len(self.templates)
        n_columns = n_columns or -(-n // max(1, round(np.sqrt(n / 2.2))))
        n_rows = -(-n // n_columns)
        ratio = self.templates.shape[1] / self.templates.shape[2]
        figure = figure_on(figure, (1.5 * n_columns + 1.2, (1.5 * ratio + 0.36) * n_rows))
        cells = figure.subplots(n_rows, n_columns, squeeze=False)
        for cell in cells.flat:
            cell.axis("off")
        self.figure_, self.axes_ = figure, cells.ravel()[:n]
        self.images_ = [self._draw(ax, k, quantile, cmap) for k, ax in enumerate(self.axes_)]
        if self.templates.ndim == 3:
            bar = figure.colorbar(self.images_[0], ax=cells, ticks=[-1, 0, 1], shrink=0.8, pad=0.02)
            bar.set_ticklabels(["against", "0", "for"])
        return self

    def _draw(self, ax: Axes, number: int, quantile: float, cmap: str) -> AxesImage:
        image = self.templates[number]
        image = image / (np.quantile(np.abs(image), quantile) or np.abs(image).max() or 1.0)
        ax.set_title(self.names[number], fontsize="medium")
        if image.ndim == 3:
            return ax.imshow(np.clip(0.5 + image / 2, 0, 1))
        return ax.imshow(image, cmap=cmap, vmin=-1, vmax=1)


def _titles(estimator: BaseEstimator, n: int, class_names: Sequence[str] | None) -> list[str]:
    """Return the meaning of each row of `coef_`."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return ["weights"] if n == 1 else [f"output {k}" for k in range(n)]
    names = names_of(classes, class_names)
    if n == 1:  # of two classes the second is positive
        return [f"{names[1]}, not {names[0]}"]
    if hasattr(estimator, "n_support_"):  # one against one, of which there may be as many as classes
        return [f"{a}, not {b}" for a, b in combinations(names, 2)]
    return names
