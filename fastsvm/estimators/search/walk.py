"""A walk over C, gamma and others, in ranges that follow from the samples.

Cells are the points of a lattice, whose axes are geometric progressions. The walk begins with coarse steps, moves to
the best cell of the neighbourhood as long as that is better, and then halves its steps. It leaves out steps that
promise less than the standard error of the score. On many samples, its coarse part takes a part of them, and carries
on the cells that the part cannot tell from the best.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm.estimators.fitting.validation import Samples
from fastsvm.tuning.records import SearchTuning

AUTO = "auto"
Scores: TypeAlias = np.ndarray
"""The scores of a cell on all splits."""


# --- the lattice -------------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """Values of a parameter: that of position k is `origin * factor**k`, from position `least` to `most`."""

    name: str
    origin: float
    factor: float  # Models of a higher position fit their samples more closely.
    least: int
    most: int
    start: int

    def value(self, k: int) -> float:
        """Return the value at a position, with three digits: users read it."""
        return float(f"{self.origin * self.factor**k:.3g}")


# Origin and factor, the first and the last position, and where the walk begins. Four steps are a coarse one. The
# origins of gamma and epsilon are in units of the samples.
AXES = {
    axis.name: axis
    for axis in (
        Axis("C", 1.0, 2.0, -7, 14, 2),
        Axis("nu", 0.5, 0.5**0.5, -1, 13, 0),
        Axis("alpha", 1e-4, 0.5, -14, 10, 0),
        Axis("gamma", 1.0, 8**0.25, -14, 14, 0),
        Axis("epsilon", 0.1, 0.5, -4, 8, 0),
    )
}


class Cell(NamedTuple):
    """A point of the lattice of a combination of listed values."""

    choice: int
    at: tuple[int, ...]


class Lattice(NamedTuple):
    """Axes of the walk, and combinations of the parameters whose values are listed, from which it chooses one."""

    choices: list[dict]
    axes: list[list[Axis]]  # Each combination has its own, since a kernel of standardised samples has another scale.

    @classmethod
    def of(cls, estimator: BaseEstimator, grid: dict, X: Samples, y: np.ndarray | None) -> "Lattice":
        """Return the lattice of a grid; some of the samples say how far apart they are, and which features are long."""
        if is_auto(grid.get("standardize")):
            deviations = StandardScaler(with_mean=False).fit(X).scale_
            grid = grid | {"standardize": [False, True] if deviations.max() > 2 * deviations.min() else [False]}
        names = [name for name, values in grid.items() if is_auto(values)]
        choices = list(ParameterGrid({name: values for name, values in grid.items() if name not in names}))
        models = [clone(estimator).set_params(**clone(choice, safe=False)) for choice in choices]
        return cls(choices, [[_axis(name, model, X, y) for name in names] for model in models])

    def parameters(self, cell: Cell) -> dict:
        """Return the parameters of a cell."""
        axes = self.axes[cell.choice]
        return self.choices[cell.choice] | {axis.name: axis.value(k) for axis, k in zip(axes, cell.at, strict=True)}

    def ring(self, middle: Cell, step: int, corners: bool = False) -> Iterator[Cell]:
        """Yield a cell and its neighbours along each axis, and where one of the first two rises as the other falls."""
        # The best values of C and gamma often lie on such a line. At `corners` both rise or both fall.
        axes = self.axes[middle.choice]
        for moves in product((0, -step, step), repeat=len(axes)):
            is_corner = len(set(moves[:2])) == 1
            if sum(move != 0 for move in moves) > 1 and (any(moves[2:]) or (is_corner and not corners)):
                continue
            at = tuple(k + move for k, move in zip(middle.at, moves, strict=True))
            if all(axis.least <= k <= axis.most for axis, k in zip(axes, at, strict=True)):
                yield Cell(middle.choice, at)


def is_auto(values: object) -> bool:
    """Return whether the walk chooses the values of a parameter."""
    return isinstance(values, str) and values == AUTO


def _axis(name: str, model: BaseEstimator, X: Samples, y: np.ndarray | None) -> Axis:
    """Return the axis of a parameter, which may be one of a step of a pipeline."""
    word = name.rpartition("__")[2]
    if word not in AXES:
        raise ValueError(f'param_grid has {name}="auto", but the search chooses {", ".join(AXES)} only. List values.')
    unit = 1.0
    if word == "gamma":
        unit = 1 / _squared_distance(model, X, y)
    elif word == "epsilon" and y is not None:
        unit = float(np.std(y)) or 1.0
    axis = AXES[word]
    return axis._replace(name=name, origin=axis.origin * unit)


def _squared_distance(model: BaseEstimator, X: Samples, y: np.ndarray | None) -> float:
    """Return the median squared distance of samples, as they reach the kernel."""
    if isinstance(model, Pipeline):
        X, model = clone(model[:-1]).fit_transform(X, y), model[-1]
    if getattr(model, "standardize", False):
        X = StandardScaler(with_mean=False).fit_transform(X)
    half = X.shape[0] // 2
    squared = euclidean_distances(X[:half], X[half:], squared=True)
    squared = squared[squared > 0]
    return float(np.median(squared)) if len(squared) else 1.0


# --- the walk ----------------------------------------------------------------------------------------------------


@dataclass
class Walk:
    """The walk over a lattice; `score` returns the scores of cells, of fits of a number of the samples."""

    lattice: Lattice
    sizes: Sequence[int]
    score: Callable[[list[Cell], int], list[Scores]]
    tuning: SearchTuning
    scores: dict[Cell, Scores] = field(default_factory=dict)

    def best(self) -> Cell:
        """Walk, and return the best cell of all samples."""
        starts = [Cell(k, tuple(axis.start for axis in axes)) for k, axes in enumerate(self.lattice.axes)]
        carried = [cell for start in starts for cell in self.lattice.ring(start, 4, corners=True)]
        for size in self.sizes:
            self.scores = {}
            best = self._best_with(carried, size)
            for step in self._steps(size):
                best = self._climbed(best, step, size)
                if not self._promises(best, step):
                    break
            least = self._mean(best) - self._error(best)
            near = [cell for cell in self.scores if self._mean(cell) >= least]
            carried = sorted(near, key=self._mean, reverse=True)[: self.tuning.carried]
        return best

    def _steps(self, size: int) -> tuple[int, ...]:
        """Return the steps on a part of the samples: coarse ones on the first, fine ones on all."""
        if len(self.sizes) == 1:
            return 4, 2, 1
        return (4, 2) if size == self.sizes[0] else (2, 1) if size == self.sizes[-1] else (2,)

    def _climbed(self, at: Cell, step: int, size: int) -> Cell:
        """Return the best cell after moves that are worth their time."""
        while True:
            best = self._best_with(list(self.lattice.ring(at, step)), size)
            if not self._mean(best) - self._mean(at) > self.tuning.least_gain * self._error(best):
                return best
            at = best

    def _best_with(self, cells: list[Cell], size: int) -> Cell:
        """Return the best cell of all that are scored, after these have been; of equal ones, the first."""
        new = [cell for cell in cells if cell not in self.scores]
        self.scores.update(zip(new, self.score(new, size), strict=True))
        return max(self.scores, key=self._mean)

    def _promises(self, best: Cell, step: int) -> bool:
        """Return whether half a step from the best cell can gain much: an eighth of the fall, on a parabola."""
        around = [cell for cell in self.lattice.ring(best, step) if cell in self.scores]
        falls = [self._mean(best) - self._mean(cell) for cell in around]
        return max(filter(np.isfinite, falls), default=0.0) / 8 > self.tuning.least_promise * self._error(best)

    def _mean(self, cell: Cell) -> float:
        mean = round(float(np.mean(self.scores[cell])), 12)  # else rounding errors decide between equal scores
        return mean if np.isfinite(mean) else -np.inf

    def _error(self, cell: Cell) -> float:
        """Return the standard error of the score of a cell."""
        scores = self.scores[cell]
        error = float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else 0.0
        return error if np.isfinite(error) else 0.0
