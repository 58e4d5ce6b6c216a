"""Images: a confusion matrix with an example of each confusion, and the weights of a linear model."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d

from fastsvm.displays._canvas import Artist, Axes, AxesImage, Display, Figure, Look, Option, check_fit, pyplot, tint
from fastsvm.displays._samples import as_images, confusion_counts, names_of, rows_at
from fastsvm.estimators.fitting.documentation import documented, documented_by
from fastsvm.estimators.fitting.validation import Samples, labels_of
from fastsvm.estimators.linear.prediction import dense_coef
from fastsvm.sources import of_open_file
from fastsvm.tuning import current_tuning

_RIGHT, _WRONG = np.array([0.0, 0.45, 0.70]), np.array([0.84, 0.37, 0.0])  # blue and vermilion of Okabe and Ito


@documented
class ConfusionDisplay(Display):
    """Confusion matrix; of images with one in each cell, the first of that class with that prediction.

    Use `from_estimator` or `from_predictions` to compute it.

    Parameters
    ----------
    counts : ndarray of int, shape (n_classes, n_classes)
        Numbers of samples by class (first axis) and predicted class (second axis).
    examples : dict of (int, int) to ndarray
        Image of each cell that has samples, shape (height, width) or (height, width, 3), values from 0 to 1; empty if
        the samples are no images.
    names : list of str
        Names of the classes.

    Attributes
    ----------
    text_ : ndarray of Text, shape (n_classes, n_classes)
        The counts.
    images_ : dict of (int, int) to AxesImage
        The examples.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from fastsvm import SVC
    >>> from fastsvm.displays import ConfusionDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SVC().fit(X[:900], y[:900])
    >>> display = ConfusionDisplay.from_estimator(model, X[900:], y[900:], (8, 8))
    >>> int(display.counts.sum())
    897
    """

    def __init__(self, counts: np.ndarray, examples: dict[tuple[int, int], np.ndarray], names: list[str]) -> None:
        self.counts, self.examples, self.names = counts, examples, names

    @classmethod
    @documented_by(Display)
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: object,
        y: object,
        image_shape: tuple[int, ...] | None = None,
        **options: Option,
    ) -> "ConfusionDisplay":
        """Predict the classes of samples and draw the confusion matrix.

        Parameters
        ----------
        estimator : classifier
            Fitted.
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, HDF5Data or Source, shape (n_samples, n_features)
            Samples, or images, one in each row, as the estimator expects them.
        y : array-like of shape (n_samples,) or None
            Their classes; None uses the labels of an `HDF5Data`.
        **options
            Further parameters of `from_predictions`, such as `class_names`, and of `plot`.

        Raises
        ------
        ValueError
            As for `from_predictions`.
        """
        check_fit(estimator)
        y = labels_of(X, y)
        if options.get("labels") is None and y is not None:
            options["labels"] = np.union1d(estimator.classes_, np.asarray(y))
        return cls.from_predictions(y, estimator.predict(X), X, image_shape, **options)

    @classmethod
    @documented_by(Display)
    def from_predictions(
        cls,
        y_true: object,
        y_pred: object,
        X: object = None,
        image_shape: tuple[int, ...] | None = None,
        *,
        class_names: Sequence[str] | None = None,
        labels: object = None,
        channels: str | None = None,
        **drawing: Option,
    ) -> "ConfusionDisplay":
        """Compute the confusion matrix and draw it.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,) or None
            The classes of the samples; None uses the labels of an `HDF5Data`.
        y_pred : array-like of shape (n_samples,)
            Predicted classes.
        X : array-like, CSR matrix, DataFrame, h5py.Dataset, HDF5Data, Source or None, shape (n_samples, n_pixels)
            The images, of an `image_shape`, bytes or floats. Black is 0 or the least value that is drawn, if that is
            negative; white is the largest. From disk, only the drawn rows are read.
        class_names : sequence of str or None
            Names of the classes in the order of `labels`; None uses the names in an `HDF5Data`.
        labels : array-like or None
            Classes to draw, in this order; None draws all. More than 20 are hard to read.
        **drawing
            Parameters of `plot`: `ax` and `cmap`.

        Raises
        ------
        ValueError
            If labels are missing, numbers of samples differ, or names or shape do not fit.
        """
        pyplot()
        X = of_open_file(X)
        y_true, y_pred = _pair(labels_of(X, y_true), y_pred, y_pred if X is None else X)
        labels = np.union1d(y_true, y_pred) if labels is None else np.asarray(labels)
        names = names_of(labels, class_names, X)
        counts, first = _count(y_true, y_pred, labels)
        if image_shape is None:
            return cls(counts, {}, names).plot(**drawing)
        rows = rows_at(X, np.array(list(first.values()))).astype(np.float64)
        low, high = min(0.0, rows.min()), rows.max()
        images = as_images((rows - low) / ((high - low) or 1.0), image_shape, channels)
        return cls(counts, dict(zip(first, images, strict=True)), names).plot(**drawing)

    @documented_by(Display)
    def plot(self, ax: Axes | None = None, *, cmap: str = "gray") -> "ConfusionDisplay":
        """Draw the matrix.

        Parameters
        ----------
        cmap : str, default="gray"
            Colour map of images without colours.
        """
        n = len(self.names)
        side = float(np.clip(0.82 * n + 1.4, 4.2, 14))
        ax = self._axes_on(ax, (side, side))
        ax.imshow(self._shades(), zorder=0)
        self.images_ = {cell: self._draw(cell, image, cmap) for cell, image in self.examples.items()}
        box = ax.get_window_extent()
        size = float(np.clip(13.5 * min(box.width, box.height) / ax.figure.dpi / n, 7, 11))  # points, of inches a cell
        self.text_ = np.empty((n, n), dtype=object)
        for (row, column), count in np.ndenumerate(self.counts):  # below an image if there is one; a zero is pale
            look: Look = {"ha": "center", "va": "center", "fontsize": size, "color": "black" if count else "0.6"}
            place = row + 0.36 * ((row, column) in self.examples)
            self.text_[row, column] = ax.text(column, place, f"{count:,}", **look)
        self._dress()
        return self

    def _shades(self) -> np.ndarray:
        """Return colours of cells: by their share of the class, and for errors relative to the largest such share."""
        share = self.counts / np.maximum(1, self.counts.sum(axis=1, keepdims=True))
        right = np.eye(len(share), dtype=bool)
        wrong = np.where(right, 0.0, share)
        wrong = wrong / (wrong.max() or 1.0)
        return np.where(right[..., None], tint(_RIGHT, 0.55 * share), tint(_WRONG, 0.75 * wrong))

    def _draw(self, cell: tuple[int, int], image: np.ndarray, cmap: str) -> Artist:
        """Draw an image in the upper part of its cell."""
        height, width = image.shape[:2]
        half = np.array([width, height]) / max(height, width) * current_tuning().look.cell / 2
        row, column = cell[0] - 0.11, cell[1]
        extent = (column - half[0], column + half[0], row + half[1], row - half[1])
        return self.ax_.imshow(image, cmap=cmap, vmin=0, vmax=1, extent=extent, zorder=1, interpolation="nearest")

    def _dress(self) -> None:
        n = len(self.names)
        ends, cells = (-0.5, n - 0.5), np.arange(n)
        self.ax_.set(xlim=ends, ylim=ends[::-1], aspect="equal", xlabel="predicted class", ylabel="true class")
        self.ax_.set_xticks(cells, self.names, rotation=45 if max(map(len, self.names)) > 6 else 0)
        self.ax_.set_yticks(cells, self.names)
        self.ax_.set_xticks(cells[1:] - 0.5, minor=True)
        self.ax_.set_yticks(cells[1:] - 0.5, minor=True)
        self.ax_.grid(which="minor", color="0.85", linewidth=0.8)
        self.ax_.tick_params(which="both", length=0)
        if not self.ax_.get_title():
            total = self.counts.sum()
            self.ax_.set_title(f"{np.trace(self.counts) / total:.1%} of {total:,} right", fontsize="medium")


def _pair(y_true: object, y_pred: object, X: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return both columns of labels; raise ValueError unless there is one for each row."""
    if y_true is None:
        raise ValueError("y_true is needed: none was passed and X does not bring labels.")
    truth, predicted = column_or_1d(np.asarray(y_true)), column_or_1d(np.asarray(y_pred))
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if not len(truth) == len(predicted) == n:
        raise ValueError(f"X has {n} rows, y_true {len(truth)} labels, y_pred {len(predicted)}.")
    return truth, predicted


def _count(y_true: np.ndarray, y_pred: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, dict[tuple[int, int], int]]:
    """Return the number of rows of each cell, and the first row of each cell that has some."""
    of_labels = np.flatnonzero(np.isin(y_true, labels) & np.isin(y_pred, labels))
    if len(of_labels) == 0:
        raise ValueError("There is no row whose class and predicted class are both among the labels.")
    order = np.argsort(labels)
    true, predicted = (order[np.searchsorted(labels, y[of_labels], sorter=order)] for y in (y_true, y_pred))
    first: dict[tuple[int, int], int] = {}
    for row, cell in zip(of_labels.tolist(), zip(true.tolist(), predicted.tolist(), strict=True), strict=True):
        first.setdefault(cell, row)
    return confusion_counts(true, predicted, np.arange(len(labels))), first


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

        Raises
        ------
        ValueError
            If the model has no `coef_`, or names or shape do not fit the model.
        """
        check_fit(estimator)
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
        size = 1.5 * n_columns + 1.2, (1.5 * ratio + 0.36) * n_rows
        figure = pyplot().figure(figsize=size, layout="constrained") if figure is None else figure
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
