"""Samples that a display draws: read, compared with those of the fit, counted by class, drawn as points or images."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, column_or_1d

from fastsvm.displays._canvas import Axes, Look, Option, PathCollection, are_many
from fastsvm.estimators.fitting.validation import Samples, labels_of
from fastsvm.sources import as_source, columns_of, is_stored, to_dense
from fastsvm.tuning import current_tuning

_COLOUR_COUNTS = (1, 3)
_MARKERS = "os^DvPX*"
_RINGS = {"support_": "support vectors", "within_margin_": "rows within the margin"}


def rows_of(X: Samples) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return X as a dense array of float64, and the names of its features, those of a data frame or "feature 0", ..."""
    names = tuple(str(name) for name in getattr(X, "columns", ()))
    values = as_source(X).in_memory().block.user_array() if is_stored(X) else X
    values = check_array(values, accept_sparse="csr", dtype=np.float64)
    values = to_dense(values)
    return values, names or tuple(f"feature {k}" for k in range(values.shape[1]))


def decided(estimator: BaseEstimator, method: str, X: Samples, points: np.ndarray) -> np.ndarray:
    """Return what a method of the estimator says of places, which may lack the names of the features of X."""
    if hasattr(X, "iloc"):  # pipelines may select columns by name
        points = type(X)(points, columns=X.columns)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return np.asarray(getattr(estimator, method)(points))


def final_model(estimator: BaseEstimator) -> BaseEstimator:
    """Return the model in a search or at the end of a pipeline."""
    while hasattr(estimator, "best_estimator_") or hasattr(estimator, "steps"):
        estimator = estimator.best_estimator_ if hasattr(estimator, "best_estimator_") else estimator.steps[-1][1]
    return estimator


def circled_rows(estimator: BaseEstimator, X: np.ndarray) -> tuple[np.ndarray | None, str]:
    """Return the numbers of the samples to circle and their name; None if the model does not have them."""
    model = final_model(estimator)
    rings = {name: np.asarray(getattr(model, name, ())) for name in _RINGS}
    rings = {name: rows for name, rows in rings.items() if rows.dtype.kind in "iu"}  # a feature selector has a mask
    support = rings.get("support_", np.empty(0, np.int64))
    for name, rows in rings.items():
        if rows.max(initial=-1) >= len(X) or not _are_those(model, support, X, model is estimator):
            raise ValueError(
                f"X is not what the model was fitted to: {name} names other rows. Pass the rows of the fit, or "
                "circle=False."
            )
    others = [name for name, rows in rings.items() if set(rows.tolist()) != set(support.tolist())]
    name = next(iter([*others, *rings]), "")
    return rings.get(name), _RINGS.get(name, "")


def _are_those(model: BaseEstimator, rows: np.ndarray, X: np.ndarray, direct: bool) -> bool:
    """Return whether the support vectors are those rows of X; True if the model does not store them."""
    vectors = getattr(model, "support_vectors_", None)
    if not direct or vectors is None or vectors.shape != (len(rows), X.shape[1]):
        return True
    return np.allclose(to_dense(vectors), X[rows], rtol=1e-3)  # whatever their precision


def column_of(X: Samples, y: object, n: int, kind: str, dtype: type | None = None) -> np.ndarray:
    """Return labels or targets as an array; ValueError says that there are none, or not one for each of n rows."""
    values = labels_of(X, y)
    if values is None:
        raise ValueError(f"y is needed to draw the {kind}: none was passed and X does not bring any.")
    column = column_or_1d(np.asarray(values, dtype=dtype))
    if len(column) != n:
        raise ValueError(f"X has {n} rows, y has {len(column)} {kind}.")
    return column


def places(values: np.ndarray, grid_resolution: int) -> np.ndarray:
    """Return evenly spaced places over the range of values, with some padding."""
    if grid_resolution < 2:
        raise ValueError(f"grid_resolution must be at least 2, found {grid_resolution}.")
    low, high = values.min(), values.max()
    padding = current_tuning().look.padding * (high - low if high > low else 1.0)
    return np.linspace(low - padding, high + padding, grid_resolution)


def confusion_counts(y_true: np.ndarray, y_pred: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the numbers of samples by class, in rows, and by predicted class; all are among the sorted labels."""
    n = len(labels)
    cells = np.searchsorted(labels, y_true) * n + np.searchsorted(labels, y_pred)
    return np.bincount(cells, minlength=n * n).reshape(n, n)


# --- points ------------------------------------------------------------------------------------------------------


def point_look(points: np.ndarray) -> Look:
    """Return parameters of matplotlib's `scatter`; many points are rasterised within a vector graphic."""
    many = are_many(points)
    size = {"s": 8, "linewidths": 0.3} if many else {"s": 24, "linewidths": 0.6}
    return {**size, "edgecolors": "white", "zorder": 2.5, "rasterized": many}


class Points(NamedTuple):
    """Labelled points of the plane: X of shape (n_samples, 2) in float64, y of shape (n_samples,), and all labels."""

    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    names: tuple[str, str] = ("feature 0", "feature 1")

    @classmethod
    def of(cls, X: object, y: object, classes: np.ndarray | None = None) -> "Points":
        """Return the points of any X and y that the estimators accept."""
        values, names = rows_of(X)
        if values.shape[1] != 2:
            raise ValueError(f"X must have 2 features, to be drawn in a plane; found {values.shape[1]}.")
        labels = column_of(X, y, len(values), "labels")
        classes = np.unique(labels) if classes is None else np.asarray(classes)
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"y holds labels that the model does not know: {unknown.tolist()}.")
        return cls(values, labels, classes, (names[0], names[1]))

    def place_of(self, legend: bool | str) -> bool | str:
        """Return the place of the legend; the search for the best place is slow among many points."""
        return ("upper right" if are_many(self.X) else "best") if legend is True else legend

    def draw(self, ax: Axes, colours: np.ndarray, **look: Option) -> list[PathCollection]:
        """Draw the points of each class, label the axes, and return an artist for each class."""
        drawn = []
        for number, label in enumerate(self.classes):
            of_class: Look = {"c": [colours[number]], "marker": _MARKERS[number % len(_MARKERS)], "label": str(label)}
            drawn.append(ax.scatter(*self.X[self.y == label].T, **(point_look(self.X) | of_class | look)))
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        return drawn


# --- images ------------------------------------------------------------------------------------------------------


def as_images(rows: np.ndarray, image_shape: tuple[int, ...], channels: str | None = None) -> np.ndarray:
    """Return rows of pixels as images, shape (n_rows, height, width) or, in colour, (n_rows, height, width, 3).

    `image_shape` is (h, w), (c, h, w) or (h, w, c), where c is 1 or 3; `channels` says which, None infers it.
    """
    shape = tuple(int(size) for size in image_shape)
    if channels not in (None, "first", "last"):
        raise ValueError(f"channels must be 'first', 'last' or None, found {channels!r}.")
    if len(shape) not in (2, 3):
        raise ValueError(f"image_shape must be (h, w), (c, h, w) or (h, w, c), found {shape}.")
    first = len(shape) == 3 and _channels_first(shape, channels)
    if np.prod(shape) != rows.shape[1]:
        raise ValueError(f"image_shape {shape} has {np.prod(shape)} values, rows have {rows.shape[1]}.")
    images = rows.reshape(-1, *shape)
    images = np.moveaxis(images, 1, -1) if first else images
    return images[..., 0] if len(shape) == 3 and images.shape[-1] == 1 else images


def _channels_first(shape: tuple[int, ...], channels: str | None) -> bool:
    """Return whether the first of three sizes counts the channels, rather than the last."""
    first, last = (shape[place] in _COLOUR_COUNTS for place in (0, -1))
    if channels is None:
        if first and last:
            raise ValueError(f"image_shape {shape} may be (c, h, w) or (h, w, c): say channels='first' or 'last'.")
        channels = "first" if first else "last"
    if not (first if channels == "first" else last):
        raise ValueError(f"image_shape {shape} must have 1 or 3 channels, {channels} as channels says or by default.")
    return channels == "first"


def rows_at(X: Samples, numbers: np.ndarray) -> np.ndarray:
    """Return some rows of X as a dense array (n_rows, n_values); no other rows are read from disk."""
    if is_stored(X):
        source = as_source(X)
        blocks = [source.read(number, number + 1) for number in np.asarray(numbers).tolist()]
        return np.concatenate([to_dense(block.user_array()) for block in blocks])
    rows = X.iloc[numbers] if hasattr(X, "iloc") else (X if hasattr(X, "shape") else np.asarray(X))[numbers]
    rows = to_dense(rows)
    return rows.reshape(len(rows), -1)


def names_of(labels: np.ndarray, class_names: Sequence[str] | None, X: object = None) -> list[str]:
    """Return the name of each label: the one that was passed, that X has for this number, or the label itself."""
    if class_names is None:
        names = columns_of(X).class_names
        are_numbers = labels.dtype.kind in "iu" and len(labels) > 0 and labels.min() >= 0
        if names is None or not are_numbers or labels.max() >= len(names):
            return [str(label) for label in labels]
        return [names[label] for label in labels]
    if len(class_names) != len(labels):
        raise ValueError(f"class_names must name each of the {len(labels)} classes, found {len(class_names)} names.")
    return [str(name) for name in class_names]
