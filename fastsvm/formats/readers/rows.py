"""A block of rows with their labels, dense or sparse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

__all__ = ["Rows", "check_finite", "stack"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of X, their labels, and other columns of shape (n_rows,) by the names of their datasets."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray | None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.X.shape[0]

    @property
    def nbytes(self) -> int:
        """Memory taken by values, indices, labels and other columns."""
        parts = [self.X] if isinstance(self.X, np.ndarray) else [self.X.data, self.X.indices, self.X.indptr]
        parts += [*self.columns.values(), *([] if self.y is None else [self.y])]
        return sum(part.nbytes for part in parts)

    def take(self, index: np.ndarray) -> "Rows":
        """Return a copy of the rows `index`, in that order."""
        columns = {name: values[index] for name, values in self.columns.items()}
        return Rows(self.X[index], None if self.y is None else self.y[index], columns)


def stack(blocks: Sequence[Rows]) -> Rows:
    """Return the rows of several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    parts = [block.X for block in blocks]
    X = sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    columns = {name: np.concatenate([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    return Rows(X, None if blocks[0].y is None else np.concatenate([block.y for block in blocks]), columns)


def check_finite(X: np.ndarray, source: object, first_row: int) -> None:
    """Raise ValueError if a dense block holds NaN or infinity. The message names row and column."""
    if X.dtype.kind != "f" or np.isfinite(X).all():
        return
    row, column = np.argwhere(~np.isfinite(X))[0]
    raise ValueError(
        f"{source}: the value in row {first_row + row}, column {column} is {X[row, column]} (both counted "
        "from 0); impute or remove values that are not finite first."
    )
