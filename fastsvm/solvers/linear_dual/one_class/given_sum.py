"""Dual variables between 0 and their costs that have a given sum, and the offset that is its multiplier."""

from typing import NamedTuple

import numpy as np

__all__ = ["GivenSum"]

_ROUNDING = 1e-12  # of the sum


class GivenSum(NamedTuple):
    """The constraint Σ β_i = total, 0 ≤ β_i ≤ c_i, with the costs c; the total is at most their sum."""

    costs: np.ndarray
    total: float

    def corrected(self, dual: np.ndarray) -> np.ndarray:
        """Return feasible variables near others, which are within their bounds; shape (n,).

        Variables whose sum is too large are diminished in proportion. Others are moved towards the costs; those that
        are 0 stay so if the others suffice.
        """
        lack = self.total - float(dual.sum(dtype=np.float64))
        if lack <= 0:
            return self.total / (self.total - lack) * dual
        room = self.costs - dual
        of_used = np.where(dual > 0, room, 0.0)
        room = of_used if of_used.sum() >= lack else room
        most = float(room.sum())
        return dual + (lack / most if most > 0 else 0.0) * room

    def offset(self, scores: np.ndarray) -> float:
        """Return the offset ρ that minimises -total ρ + Σ c_i max(0, ρ - s_i), a weighted quantile of the scores.

        Where each offset between two scores is such, it is the middle, as in LIBSVM.
        """
        least = self.costs.min()
        if least == self.costs.max():  # no order is needed
            ends = np.array([1 - _ROUNDING, 1 + _ROUNDING]) * (self.total / least)
            places = np.clip(np.ceil(ends).astype(np.int64) - 1, 0, len(scores) - 1)
            low, high = np.partition(scores, places)[places]
            return float(low + (high - low) / 2)
        order = np.argsort(scores)
        order = order[self.costs[order] > 0]
        sums = np.cumsum(self.costs[order])
        low, high = np.searchsorted(sums, (self.total * (1 - _ROUNDING), self.total * (1 + _ROUNDING)))
        low, high = scores[order[np.minimum((low, high), len(order) - 1)]]
        return float(low + (high - low) / 2)

    def losses(self, scores: np.ndarray, offset: float) -> float:
        """Return -total ρ + Σ c_i max(0, ρ - s_i)."""
        return float(self.costs @ np.maximum(0.0, offset - scores)) - self.total * offset
