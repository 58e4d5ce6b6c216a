"""The losses of all batches of a fit, as a curve of bounded length."""

from typing import NamedTuple

import numpy as np

from fastsvm.files.storable import storable

__all__ = ["CurveParts", "LossCurve"]

_MOST = 10_000  # points


@storable("loss curve")
class CurveParts(NamedTuple):
    """What a curve is made of: batches of a point, points, and losses that do not make up one yet."""

    per_point: int
    points: np.ndarray
    rest: np.ndarray


class LossCurve:
    """Mean losses of batches; when there are many, each point is the mean of several in a row, `per_point`."""

    def __init__(self) -> None:
        self.per_point = 1
        self._points = self._rest = np.empty(0)

    @classmethod
    def of(cls, parts: CurveParts) -> "LossCurve":
        """Return the curve that had these parts."""
        curve = cls()
        curve.per_point, curve._points, curve._rest = parts
        return curve

    def parts(self) -> CurveParts:
        """Return what the curve is made of."""
        return CurveParts(self.per_point, self._points, self._rest)

    def extend(self, losses: np.ndarray) -> None:
        """Add the losses of batches."""
        rest = np.concatenate([self._rest, losses])
        whole = len(rest) // self.per_point * self.per_point
        self._points = np.concatenate([self._points, rest[:whole].reshape(-1, self.per_point).mean(axis=1)])
        self._rest = rest[whole:]
        while len(self._points) > _MOST:
            even = len(self._points) // 2 * 2
            self._rest = np.concatenate([np.repeat(self._points[even:], self.per_point), self._rest])
            self._points = self._points[:even].reshape(-1, 2).mean(axis=1)
            self.per_point *= 2

    def points(self) -> np.ndarray:
        """Return the curve; the last point may be of fewer batches."""
        return np.append(self._points, self._rest.mean()) if len(self._rest) else self._points.copy()
