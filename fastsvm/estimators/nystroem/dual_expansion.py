"""The expansion Σ_j β_j k(x_j, x) of dual variables: what bounds of the optimum need of the rows of one place.

Rows may be in several places. Each has an expansion over its own rows, and answers for them; sums are those of all
places, and rows at which others are to evaluate theirs are sent as blocks.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.threads import Pool, spans
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.losses import Demands, Loss, dual_losses, feasible, primal_losses
from fastsvm.sources import Block, Source
from fastsvm.tuning import NystroemTuning

__all__ = ["DualExpansion", "Expansions", "InOnePlace", "Limits", "Machine", "Solved", "Support", "added"]


class Machine(NamedTuple):
    """A machine of landmarks, which are as they were passed, shape (n_landmarks, n_features).

    `coef` has the shape (n_scores, n_landmarks). `constant` is the value of the constant feature, and `bias` its
    weights.
    """

    landmarks: Any
    coef: np.ndarray
    bias: np.ndarray
    constant: float
    loss: Loss

    def by_problem(self, of_scores: np.ndarray) -> np.ndarray:
        """Return sums over the scores of each problem: one for a loss of all classes, otherwise one a score."""
        return of_scores.sum(keepdims=True) if self.loss.of_classes else of_scores


class Solved(NamedTuple):
    """The rows of one place, and their part of a solution on features.

    The dual variables, shape (n_samples, n_scores), are within rounding of feasible ones.
    """

    source: Source
    features: Source
    demands: Demands
    dual: np.ndarray


class Support(NamedTuple):
    """The rows of one place that have dual variables: their numbers, which rise, and feasible variables."""

    rows: np.ndarray
    beta: np.ndarray


class Limits(NamedTuple):
    """How many rows may be used at once: those of a block, and of all blocks that are in memory together."""

    n_chunk: int
    n_held: int


class DualExpansion:
    """The expansion of dual variables of one place, a column for each score, with the kernel alone.

    The estimator has the attributes of a fitted kernel. `budget` is the bytes that may be used.
    """

    def __init__(
        self, estimator: Any, machine: Machine, solved: Solved, pool: Pool, budget: int, tuning: NystroemTuning
    ) -> None:
        self._estimator, self.machine, self._solved = estimator, machine, solved
        self._pool, self._budget, self._tuning = pool, budget, tuning

    def limits(self) -> Limits:
        """Return how many rows may be used at once."""
        source = self._solved.source
        n_held = max(1, self._budget // source.tuning.window_share // _row_bytes(source))
        return Limits(self._chunk_rows() if source.resident else n_held, n_held)  # a file is read once for a block

    def _chunk_rows(self) -> int:
        """Return the number of rows of an expansion at once."""
        source, tuning = self._solved.source, self._solved.source.tuning
        return max(1, min(tuning.resident_rows, self._budget // tuning.block_share // _row_bytes(source)))

    def losses(self) -> np.ndarray:
        """Return the losses of the machine in float64, per score; of all classes only the first."""
        source, machine, demands = self._solved.source, self.machine, self._solved.demands
        predictor = Predictor(self._estimator, machine.coef.T, source, self._pool, machine.landmarks, np.float64)
        found = np.zeros(len(machine.coef))
        for start, block in shown(source.blocks(), len(source), "bounds", self._estimator):
            rows = slice(start, start + block.shape[0])
            scores = np.ascontiguousarray((predictor.scores(block) + machine.constant * machine.bias).T)
            primal_losses(machine.loss, demands.of_rows(rows), 0, scores, found)
        return found

    # --- dual variables ----------------------------------------------------------------------------------

    def support(self) -> Support:
        """Return the rows with dual variables, which are feasible."""
        solved = self._solved
        beta = feasible(self.machine.loss, solved.demands, np.asarray(solved.dual, np.float64))
        rows = np.flatnonzero(beta.any(axis=1))
        return Support(rows, beta[rows])

    def conjugates(self, support: Support, shares: np.ndarray) -> np.ndarray:
        """Return Σ c ℓ*(-t β / c) for each score, with shares t of each."""
        found = np.zeros(support.beta.shape[1])
        demands = self._solved.demands.of_rows(support.rows)
        dual_losses(self.machine.loss, demands, np.ascontiguousarray(support.beta * shares), found)
        return found

    def count(self, support: Support) -> int:
        """Return the number of rows with dual variables."""
        return len(support.rows)

    def kept(self, support: Support) -> tuple["DualExpansion", Support]:
        """Return an expansion of the rows with dual variables alone, read into memory; or this one, of rows in it."""
        solved, rows = self._solved, support.rows
        if solved.source.resident or not self._tuning.kept:
            return self, support
        own = Solved(solved.source.take(rows).in_memory(), solved.features, solved.demands.of_rows(rows), solved.dual)
        found = DualExpansion(self._estimator, self.machine, own, self._pool, self._budget, self._tuning)
        return found, support._replace(rows=np.arange(len(rows)))

    # --- kernel values -----------------------------------------------------------------------------------

    def block(self, support: Support, places: np.ndarray) -> Block:
        """Return rows with dual variables, as they are stored, for all places to evaluate their expansions at."""
        return self._solved.source.rows(support.rows[places])

    def sums(self, block: Block, support: Support, square: float) -> np.ndarray:
        """Return ((K + square) β) at the rows of a block, shape (n_rows, n_scores)."""
        source, found = self._solved.source, np.zeros((block.shape[0], support.beta.shape[1]))
        for a, b in spans(len(support.rows), self._chunk_rows()):
            part, coef = source.as_passed(source.rows(support.rows[a:b])), support.beta[a:b]
            found += Predictor(self._estimator, coef, source, self._pool, part, np.float64).scores(block)
        return found + square * support.beta.sum(axis=0)

    def form(self, support: Support, places: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
        """Return Σ_i β_i ((K + square) β)_i over some rows; `parts` are the sums of each place at them."""
        return np.einsum("ic,ic->c", support.beta[places], added(parts))


class Expansions(Protocol):
    """The expansions of all places. What one of them returns stays in its place until it is asked for."""

    def __len__(self) -> int:
        """Return the number of places."""

    @property
    def n_rows(self) -> int:
        """Return the number of rows of all places."""

    def at(self, number: int, method: Any, *given: Any) -> Any:
        """Have the expansion of a place do something; among what is given, values of other places are sent to it."""

    def told(self, values: list[Any]) -> list[Any]:
        """Return values themselves."""

    def kept(self, support: list[Any]) -> tuple["Expansions", list[Any]]:
        """Return expansions of rows in memory, if these are not."""


class InOnePlace:
    """The expansion of rows that are all in one place, of this process."""

    def __init__(self, expansion: DualExpansion, n_rows: int) -> None:
        self.expansion, self.n_rows = expansion, n_rows

    def __len__(self) -> int:
        """Return the number of places."""
        return 1

    def at(self, number: int, method: Any, *given: Any) -> Any:
        """Have the expansion do something."""
        return method(self.expansion, *given)

    def told(self, values: list[Any]) -> list[Any]:
        """Return values."""
        return values

    def kept(self, support: list[Any]) -> tuple["InOnePlace", list[Any]]:
        """Return the expansion of rows in memory."""
        expansion, own = self.expansion.kept(support[0])
        return InOnePlace(expansion, self.n_rows), [own]


def added(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays of all places, added in their order; a new array."""
    return sum(parts, np.zeros(()))


def _row_bytes(source: Source) -> int:
    """Return the bytes of a row as it is stored or, if that is more, in float64."""
    stored = source.nbytes // max(1, len(source))
    return stored + 1 if source.sparse else max(stored, 8 * source.shape[1])
