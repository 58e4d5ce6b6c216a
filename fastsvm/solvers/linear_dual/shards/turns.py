"""Which shard processes which scores in which part of a round.

Scores of their own problems are cut into runs, as many as there are shards, or a score each. In every part of a round
each run is with another shard, which processes a piece of its rows, chosen at random in each round. After all parts
each shard has processed each run in all rows. If there are more shards than runs, some process the same run together.
A loss of all classes has one run.

In pieces, rows of all shards are mixed nearly as in one place. In whole shards, those that come first in each round
adapt to a moved anchor as if there were no others, again and again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fastsvm.solvers.linear_dual.epochs.epoch import class_bounds
from fastsvm.solvers.linear_dual.problem import LinearProblem

__all__ = ["Turns"]


_PIECES = 4  # with one, a hinge takes more than twice as many rounds, with more not fewer


class Turns(NamedTuple):
    """Which shard processes which scores.

    A run is its first score and the one after its last. The rows of a shard are divided into `n_pieces`.
    """

    n_shards: int
    runs: Sequence[tuple[int, int]]
    n_pieces: int

    @classmethod
    def of(cls, problem: LinearProblem, n_shards: int) -> "Turns":
        """Return the turns for a problem."""
        runs = class_bounds(problem.n_scores, 1 if problem.loss.of_classes else n_shards)
        return cls(n_shards, runs, _PIECES if n_shards > 1 else 1)

    @property
    def n_parts(self) -> int:
        """Number of parts of a round."""
        return len(self.runs) * self.n_pieces

    @property
    def n_together(self) -> int:
        """The most shards that process a run together."""
        return -(-self.n_shards // len(self.runs))

    def run(self, shard: int, part: int) -> int:
        """Return the number of the run that a shard processes."""
        return (shard + part) % len(self.runs)

    def shard(self, run: int, part: int, place: int) -> int | None:
        """Return the number of the shard at a place among those that process a run together, or None."""
        found = (run - part) % len(self.runs) + place * len(self.runs)
        return found if found < self.n_shards else None
