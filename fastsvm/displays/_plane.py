"""Labelled points in the plane: validated and drawn."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import column_or_1d

from fastsvm.displays._canvas import are_many, point_look
from fastsvm.displays._samples import rows_of
from fastsvm.estimators.fitting.validation import labels_of
from fastsvm.tuning import current_tuning

__all__ = ["Points"]

_MARKERS = "os^DvPX*"


class Points(NamedTuple):
    """Labelled points of the plane: X of shape (n_samples, 2) in float64, y of shape (n_samples,), and all labels."""

    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    names: tuple[str, str] = ("feature 0", "feature 1")

    @classmethod
    def of(cls, X: Any, y: Any, classes: Any = None) -> "Points":
        """Return the points of any X and y that the estimators accept.

        It raises ValueError if there are not two features, or if labels are missing, too many or too few, or not among
        the classes.
        """
        labels = labels_of(X, y)
        if labels is None:
            raise ValueError("y is needed to colour the points: none was passed and X does not bring labels.")
        values, names = rows_of(X)
        if values.shape[1] != 2:
            raise ValueError(f"X must have 2 features, to be drawn in a plane; found {values.shape[1]}.")
        labels = column_or_1d(np.asarray(labels))
        if len(labels) != len(values):
            raise ValueError(f"X has {len(values)} rows, y has {len(labels)} labels.")
        classes = np.unique(labels) if classes is None else np.asarray(classes)
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"y holds labels that the model does not know: {unknown.tolist()}.")
        return cls(values, labels, classes, (names[0], names[1]))

    def limits(self) -> np.ndarray:
        """Return the limits of both axes, shape (2, 2): a row for each feature, with some padding."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        padding = current_tuning().look.padding * np.where(high > low, high - low, 1.0)
        return np.column_stack([low - padding, high + padding])

    def are_many(self) -> bool:
        """Return whether points hide one another, so that lines must be drawn above them."""
        return are_many(self.X)

    def place_of(self, legend: bool | str) -> bool | str:
        """Return the place of the legend; the search for the best place is slow among many points."""
        return ("upper right" if self.are_many() else "best") if legend is True else legend

    def draw(self, ax: Any, colours: np.ndarray, **look: Any) -> list[Any]:
        """Draw the points of each class, label the axes, and return an artist for each class."""
        usual = point_look(self.X)
        drawn = []
        for number, label in enumerate(self.classes):
            own: dict[str, Any] = {
                "c": [colours[number]],
                "marker": _MARKERS[number % len(_MARKERS)],
                "label": str(label),
            }
            drawn.append(ax.scatter(*self.X[self.y == label].T, **(usual | own | look)))
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        return drawn
