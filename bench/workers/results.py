"""What does a run leave behind? A record of the measurements, and the answer for the referee."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bench.workers import ANSWER, RECORD, Watch

__all__ = ["answer_of", "claims_of", "measured", "megabytes", "write"]

_CERTIFICATE = ("objective_", "kkt_violation_", "duality_gap_")


def answer_of(model: Any) -> dict[str, np.ndarray]:
    """Return a fit in scikit-learn's layout."""
    coef = model.dual_coef_
    return {
        "support": np.asarray(model.support_),
        "dual_coef": coef.toarray() if sparse.issparse(coef) else np.asarray(coef),
        "intercept": np.atleast_1d(model.intercept_),
    }


def claims_of(model: Any) -> dict[str, Any]:
    """Return what a model says about itself."""
    claimed = {name: float(getattr(model, name)) for name in _CERTIFICATE if hasattr(model, name)}
    return {"claimed": claimed, "n_iter": np.ravel(getattr(model, "n_iter_", [])).tolist()}


def measured(watch: Watch, stage: str, action: Callable[[], Any]) -> tuple[float, dict[str, list[str]]]:
    """Return the seconds of an action, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seconds = watch(stage, action)
    return seconds, {"warnings": sorted({str(one.message) for one in caught})}


def megabytes(X: Any) -> float:
    """Return the size of samples in MB."""
    parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    return sum(part.nbytes for part in parts) / 1e6


def write(folder: Path, record: dict[str, Any], answer: dict[str, np.ndarray]) -> None:
    np.savez(folder / ANSWER, **answer)
    (folder / RECORD).write_text(json.dumps(record))
