"""Vowpal Wabbit. Its cache file of samples is written outside the clock and read in every pass of a fit.

The referee predicts from its weights. They are read from a saved model, because only there the penalty has been applied
completely. Vowpal Wabbit itself clips single scores to [-1, 1].
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from vowpalwabbit import Workspace

__all__ = ["StoredRows", "VowpalLinear", "stored"]

_CONSTANT = 11650396  # number of the feature that is always 1
_BITS = 18  # bits of the number of a feature, so that the constant has a slot of its own


class StoredRows(NamedTuple):
    """A cache file and its content."""

    cache: Path
    n_features: int
    n_classes: int


def stored(X: Any, y: np.ndarray) -> StoredRows:
    """Write samples as text and convert them to a cache file in a temporary folder."""
    if X.shape[1] > _CONSTANT % 2**_BITS:
        raise ValueError(f"at most {_CONSTANT % 2**_BITS} features can be told from the constant")
    classes, codes = np.unique(y, return_inverse=True)
    labels = codes + 1 if len(classes) > 2 else 2 * codes - 1
    folder = Path(tempfile.mkdtemp(prefix="vowpal-"))
    found = StoredRows(folder / "rows.cache", X.shape[1], len(classes))
    text = folder / "rows.txt"
    with text.open("w") as file:
        file.writelines(f"{label} | {row}\n" for label, row in zip(labels.tolist(), _texts(X), strict=True))
    Workspace(f"{_options(found)} -d {text}").finish()
    text.unlink()
    return found


class VowpalLinear:
    """Linear SVM with the hinge loss, one class against the rest. `rule` is an option that sets the step sizes."""

    def __init__(self, alpha: float, max_iter: int, rule: str, free_intercept: bool) -> None:
        free = "--no_bias_regularization" if free_intercept else ""
        self._given = f"--l2 {alpha!r} {free} --loss_function hinge --passes {max_iter} {rule}"
        self._rows: StoredRows | None = None

    def fit(self, rows: StoredRows, y: np.ndarray) -> "VowpalLinear":
        self._rows, self._model = rows, rows.cache.with_name("model")
        Workspace(f"{_options(rows)} {self._given} -f {self._model}").finish()
        return self

    @property
    def coef_(self) -> np.ndarray:
        return self._weights(range(self._rows.n_features))

    @property
    def intercept_(self) -> np.ndarray:
        return self._weights([_CONSTANT])[:, 0]

    def _weights(self, features: Iterable[int]) -> np.ndarray:
        n_classes, scale = self._rows.n_classes, _scale(self._rows.n_classes)
        mask = 2**_BITS * scale - 1
        model = Workspace(f"-i {self._model} -t --quiet")
        try:
            scores = range(n_classes if n_classes > 2 else 1)
            return np.array([[model.get_weight((i * scale & mask) + k) for i in features] for k in scores])
        finally:
            model.finish()


def _scale(n_classes: int) -> int:
    """Return the distance between the numbers of two features: a power of two with room for all classes."""
    return 1 if n_classes == 2 else 1 << (n_classes - 1).bit_length()


def _options(rows: StoredRows) -> str:
    bits = _BITS + _scale(rows.n_classes).bit_length() - 1
    classes = f"--oaa {rows.n_classes}" if rows.n_classes > 2 else ""
    return f"--cache_file {rows.cache} --holdout_off --quiet --random_seed 0 -b {bits} {classes}"


def _texts(X: Any) -> Iterable[str]:
    """Yield the features of each sample as text, with the seven digits of float32."""
    if not sparse.issparse(X):
        form = " ".join(f"{number}:%.7g" for number in range(X.shape[1]))
        return (form % tuple(row.tolist()) for row in X)
    ends = zip(X.indptr, X.indptr[1:], strict=False)
    parts = ((X.indices[start:end].tolist(), X.data[start:end].tolist()) for start, end in ends)
    return (" ".join(f"{i}:{value:.7g}" for i, value in zip(*part, strict=True)) for part in parts)
