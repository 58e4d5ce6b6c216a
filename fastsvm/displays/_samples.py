"""Samples that a display draws: read, and compared with those of the fit."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from fastsvm.sources import as_source, is_stored

__all__ = ["circled_rows", "decided", "final_model", "like", "rows_of"]

_RINGS = {"support_": "support vectors", "within_margin_": "rows within the margin"}


def rows_of(X: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return any X that the estimators accept as a dense array of float64, and the names of its features.

    The names are those of a data frame, else "feature 0", "feature 1", ...
    """
    names = tuple(str(name) for name in getattr(X, "columns", ()))
    values = as_source(X).in_memory().block.user_array() if is_stored(X) else X
    values = check_array(values, accept_sparse="csr", dtype=np.float64)
    values = values.toarray() if sparse.issparse(values) else values
    return values, names or tuple(f"feature {k}" for k in range(values.shape[1]))


def like(X: Any, places: np.ndarray) -> Any:
    """Return places as a data frame if X is one: pipelines may select columns by name."""
    return type(X)(places, columns=X.columns) if hasattr(X, "iloc") else places


def decided(estimator: Any, method: str, places: Any) -> np.ndarray:
    """Return what a method of the estimator says of places, which may lack the names of the features."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return np.asarray(getattr(estimator, method)(places))


def final_model(estimator: Any) -> Any:
    """Return the model in a search or at the end of a pipeline."""
    while hasattr(estimator, "best_estimator_") or hasattr(estimator, "steps"):
        estimator = estimator.best_estimator_ if hasattr(estimator, "best_estimator_") else estimator.steps[-1][1]
    return estimator


def circled_rows(estimator: Any, X: np.ndarray) -> tuple[np.ndarray | None, str]:
    """Return the numbers of the samples to circle and their name; None if the model does not have them.

    It raises ValueError if X does not hold the samples of the fit.
    """
    model = final_model(estimator)
    found = {name: np.asarray(getattr(model, name, ())) for name in _RINGS}
    found = {
        name: rows for name, rows in found.items() if rows.dtype.kind in "iu"
    }  # `support_` of a feature selector is a mask
    support = found.get("support_", np.empty(0, np.int64))
    for name, rows in found.items():
        if rows.max(initial=-1) >= len(X) or not _are_those(model, support, X, model is estimator):
            raise ValueError(
                f"X is not what the model was fitted to: {name} names other rows. Pass the rows of the fit, or "
                "circle=False."
            )
    others = [name for name, rows in found.items() if set(rows.tolist()) != set(support.tolist())]
    name = next(iter([*others, *found]), "")
    return found.get(name), _RINGS.get(name, "")


def _are_those(model: Any, rows: np.ndarray, X: np.ndarray, direct: bool) -> bool:
    """Return whether the support vectors are those rows of X; True if the model does not store them."""
    vectors = getattr(model, "support_vectors_", None)
    if not direct or vectors is None or vectors.shape != (len(rows), X.shape[1]):
        return True
    vectors = vectors.toarray() if sparse.issparse(vectors) else vectors
    return np.allclose(vectors, X[rows], rtol=1e-3)  # whatever their precision
