"""Problems for estimators: small, as they come, and each printed as the code that makes it again.

Nothing is scaled for the solvers' sake: columns between 1e-3 and 1e6, raw bytes under a polynomial, C of 1e12, one row
far from all others, weights over many orders and rows that repeat are ordinary here.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator

import fastsvm

__all__ = ["ASPECTS", "Case", "Drawn", "Rows", "cases"]

REAL = ("float64", "float32", "float16")
WHOLE = ("uint8", "int8", "int16", "int32", "int64", "uint16", "bool")
LAYOUTS = ("C", "C", "F", "csr", "csr long", "read only", "strided")
REGRESSION = ("LinearSVR", "SGDRegressor")

ASPECTS = (
    "again", "one thread", "other thread", "two at once", "stored", "pickled", "permuted", "reference", "alone",
)  # fmt: skip
"""What is looked at beside certificate and decision values; one of them a case."""


@dataclass(frozen=True, repr=False)
class Rows:
    """How rows, labels and weights are made.

    Attributes
    ----------
    seed : int
        Of the random numbers.
    n, d : int
        Rows and features.
    values : str
        "normal", "bytes" (0 to 255, as pixels), "binary" (0 and 1) or "grid" (small whole numbers, so that there are
        ties).
    dtype, layout : str
        How they are stored.
    decades : float
        Columns are multiplied with powers of ten between 1e-3 and 10 to the power of this less 3; 0 leaves them.
    centre : float
        What is added to all values.
    far : float
        How many times as far from the origin the first row is; 1 for none.
    repeated, constant, empty : bool
        Whether a third of the rows is a copy of others, whether a column is constant, whether some rows are zero.
    classes : int
        Of the labels.
    noise : float
        Share of labels that are drawn by chance.
    names : str
        "int", "str", "float" or "negative", what labels are.
    weights : str
        "none", "ones", "zeros" (some), "wide" (twelve orders of magnitude) or "whole".
    """

    seed: int
    n: int = 20
    d: int = 2
    values: str = "normal"
    dtype: str = "float64"
    layout: str = "C"
    decades: float = 0.0
    centre: float = 0.0
    far: float = 1.0
    repeated: bool = False
    constant: bool = False
    empty: bool = False
    classes: int = 2
    noise: float = 0.0
    names: str = "int"
    weights: str = "none"

    def __repr__(self) -> str:
        given = (each for each in fields(self) if getattr(self, each.name) != each.default)
        return f"Rows({', '.join(f'{each.name}={getattr(self, each.name)!r}' for each in given)})"


@dataclass
class Drawn:
    """Rows to fit to, as they are passed and in float64, labels, targets, weights, and other rows to predict."""

    X: Any
    dense: np.ndarray
    y: np.ndarray
    target: np.ndarray
    weight: np.ndarray | None
    others: Any
    others_dense: np.ndarray

    def weights(self) -> np.ndarray:
        return np.ones(len(self.y)) if self.weight is None else self.weight


@dataclass(frozen=True)
class Case:
    """An estimator, its parameters, rows, and what is looked at beside the certificate."""

    estimator: str
    rows: Rows
    aspect: str = "again"
    parameters: dict[str, Any] = field(default_factory=dict)

    def model(self, **changed: Any) -> BaseEstimator:
        return getattr(fastsvm, self.estimator)(**{"max_time": 20.0} | self.parameters | changed)

    def drawn(self) -> Drawn:
        return make(self.rows)

    @property
    def regresses(self) -> bool:
        return self.estimator in REGRESSION


# --- rows ------------------------------------------------------------------------------------------------


def make(rows: Rows) -> Drawn:
    """Return what `rows` describes."""
    rng = np.random.default_rng(rows.seed)
    n_others = 7
    n = rows.n + n_others
    codes = rng.integers(0, rows.classes, n)
    codes[: rows.classes] = np.arange(rows.classes)  # each class has a row
    X = _values(rows, rng, codes)
    if rows.decades:
        X = X * 10 ** (rng.uniform(0, rows.decades, rows.d) - 3)
    X = X + rows.centre
    if rows.constant:
        X[:, rng.integers(rows.d)] = rng.choice([0.0, 1.0, 3.7, 1e4])
    if rows.repeated:
        copies = rng.integers(0, n, n // 3)
        X[copies] = X[rng.integers(0, n, n // 3)]
    X[0] *= rows.far
    if rows.empty:
        X[rng.random(n) < 0.2] = 0
    codes[rng.random(n) < rows.noise] = 0
    codes[: rows.classes] = np.arange(rows.classes)
    stored = _stored(X, rows.dtype)
    dense = stored.astype(np.float64)
    target = dense @ rng.normal(size=rows.d) / max(1.0, float(np.abs(dense).max())) + rng.normal(size=n)
    here, there = slice(0, rows.n), slice(rows.n, n)
    return Drawn(
        _laid_out(stored[here], rows.layout), dense[here], _names(codes[here], rows.names), target[here],
        _weights(rows, rng, codes[here]), _laid_out(stored[there], rows.layout), dense[there],
    )  # fmt: skip


def _values(rows: Rows, rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    n, d = len(codes), rows.d
    middles = rng.normal(size=(rows.classes, d))
    if rows.values == "bytes":
        shades = np.clip(128 + 90 * middles[codes] + 50 * rng.normal(size=(n, d)), 0, 255)
        return np.where(rng.random((n, d)) < 0.3, 0, np.floor(shades))
    if rows.values == "binary":
        return (middles[codes] + rng.normal(size=(n, d)) > 0.3).astype(float)
    if rows.values == "grid":
        return np.round(middles[codes] + rng.normal(size=(n, d)))
    return middles[codes] + rng.normal(size=(n, d))


def _stored(X: np.ndarray, dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.median(X) < X
    limits = (np.finfo if kind.kind == "f" else np.iinfo)(kind)
    return np.clip(X, max(float(limits.min), -(2.0**62)), min(float(limits.max), 2.0**62)).astype(kind)


def _laid_out(X: np.ndarray, layout: str) -> Any:
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * len(X), X.shape[1]), X.dtype)
        wide[::2] = X
        return wide[::2]
    if layout == "read only":
        X.setflags(write=False)
        return X
    if layout.startswith("csr"):
        if X.dtype == np.float16 or X.dtype == bool:  # which SciPy does not store, or not multiply
            X = X.astype(np.float32)
        found = sparse.csr_array(X)
        if layout == "csr long":
            found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
        return found
    return np.ascontiguousarray(X)


def _names(codes: np.ndarray, names: str) -> np.ndarray:
    if names == "str":
        return np.array(["ant", "bee", "cat", "dög", "", "x y"])[codes]
    return {"int": codes, "float": codes + 0.0, "negative": -3 * codes}[names]


def _weights(rows: Rows, rng: np.random.Generator, codes: np.ndarray) -> np.ndarray | None:
    n = len(codes)
    found = {
        "none": lambda: None,
        "ones": lambda: np.ones(n),
        "zeros": lambda: (rng.random(n) < 0.6).astype(float),
        "wide": lambda: 10 ** rng.uniform(-6, 6, n),
        "whole": lambda: rng.integers(1, 4, n).astype(float),
    }[rows.weights]()
    if rows.weights == "zeros":
        found[: rows.classes] = 1.0
    return found


# --- strategies ------------------------------------------------------------------------------------------

POWERS = (1e-6, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e6, 1e9, 1e12)


def _lengths(classes: int) -> st.SearchStrategy[int]:
    few, some, many = st.integers(classes, 30), st.integers(30, 120), st.integers(120, 500)
    return st.integers(0, 19).flatmap(lambda k: many if k == 19 else some if k > 9 else few)


@st.composite
def rows_of(draw: Any) -> Rows:
    classes = draw(st.sampled_from([2, 2, 2, 3, 4, 6]))
    values = draw(st.sampled_from(["normal", "normal", "bytes", "binary", "grid"]))
    dtype = draw(st.sampled_from(["float64", "float64", *REAL, *(WHOLE if values != "normal" else ())]))
    return Rows(
        seed=draw(st.integers(0, 2**31 - 1)),
        n=draw(_lengths(classes)),
        d=draw(st.one_of(st.integers(1, 6), st.integers(6, 40))),
        values=values,
        dtype=dtype,
        layout=draw(st.sampled_from(LAYOUTS)),
        decades=draw(st.sampled_from([0.0, 0.0, 0.0, 5.0, 9.0])) if dtype in REAL else 0.0,
        centre=draw(st.sampled_from([0.0, 0.0, 0.0, 10.0, 1e4, 1e6])) if dtype in REAL else 0.0,
        far=draw(st.sampled_from([1.0, 1.0, 1.0, 1e3, 1e6])) if dtype in REAL else 1.0,
        repeated=draw(st.booleans()),
        constant=draw(st.booleans()) if dtype in REAL else False,
        empty=draw(st.booleans()),
        classes=classes,
        noise=draw(st.sampled_from([0.0, 0.1, 0.5])),
        names=draw(st.sampled_from(["int", "str", "float", "negative"])),
        weights=draw(st.sampled_from(["none", "none", "ones", "zeros", "wide", "whole"])),
    )


@st.composite
def _svc(draw: Any, classes: int) -> dict[str, Any]:
    kernel = draw(
        st.sampled_from(["linear", "linear", "poly", "poly", "rbf", "rbf", "sigmoid", "laplacian", "exponential"])
    )
    found: dict[str, Any] = {"C": draw(st.sampled_from(POWERS)), "kernel": kernel}
    if kernel != "linear":
        found["gamma"] = draw(st.sampled_from(["scale", "auto", 1e-8, 1e-4, 1e-2, 1.0, 1e2, 1e4]))
    if kernel in ("poly", "sigmoid"):
        found["coef0"] = draw(st.sampled_from([0.0, 1.0] if kernel == "poly" else [0.0, -1.0, 1.0]))
    if kernel == "poly":
        found["degree"] = draw(st.sampled_from([0, 1, 2, 3, 3, 5, 7]))
    solver = draw(st.sampled_from(["smo", "smo", "smo", "coordinate", "primal"]))
    if kernel == "sigmoid" and solver == "primal":
        solver = "smo"
    if solver != "smo":
        found["solver"] = solver
        found["fit_intercept"] = draw(st.booleans())
    if solver == "primal":
        found["loss"] = "squared_hinge"
    if solver == "coordinate":
        found["selection"] = draw(st.sampled_from(["cyclic", "random"]))
    found["tol"] = draw(st.sampled_from([1e-3, 1e-3, 1e-1, 1e-5, 1e-8]))
    n_pairs = classes * (classes - 1) // 2
    found["max_iter"] = 30 + 170 // n_pairs if solver == "primal" else 20_000 // n_pairs
    found["shrinking"] = draw(st.booleans())
    found["class_weight"] = draw(st.sampled_from([None, None, "balanced"]))
    found["break_ties"] = draw(st.booleans())
    found["random_state"] = 0
    return found


@st.composite
def _linear(draw: Any, regresses: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "C": draw(st.sampled_from(POWERS)),
        "fit_intercept": draw(st.booleans()),
        "intercept_scaling": draw(st.sampled_from([1.0, 1.0, 100.0, 0.1])),
        "tol": draw(st.sampled_from([1e-4, 1e-4, 1e-2, 1e-8])),
        "criterion": draw(st.sampled_from(["gap", "gap", "gap", "gradient"])),
        "standardize": draw(st.sampled_from([False, False, False, True])),
        "max_iter": 100,
        "random_state": 0,
    }
    if regresses:
        found["loss"] = draw(st.sampled_from(["epsilon_insensitive", "squared_epsilon_insensitive"]))
        found["epsilon"] = draw(st.sampled_from([0.0, 0.1, 10.0]))
        return found
    found["loss"] = draw(st.sampled_from(["hinge", "squared_hinge"]))
    found["multi_class"] = draw(st.sampled_from(["ovr", "ovr", "crammer_singer", "weston_watkins"]))
    found["class_weight"] = draw(st.sampled_from([None, None, "balanced"]))
    return found


@st.composite
def _descent(draw: Any, regresses: bool) -> dict[str, Any]:
    losses = ["squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]
    if not regresses:
        losses = [
            "hinge", "squared_hinge", "log_loss", "modified_huber", "perceptron", "softmax", "weston_watkins",
            "crammer_singer", "squared_error",
        ]  # fmt: skip
    found: dict[str, Any] = {
        "loss": draw(st.sampled_from(losses)),
        "alpha": draw(st.sampled_from([1e-9, 1e-4, 1e-2, 1.0, 1e3])),
        "penalty": draw(st.sampled_from(["l2", "l2", "l1", "elasticnet", None])),
        "fit_intercept": draw(st.booleans()),
        "average": draw(st.booleans()),
        "batch_size": draw(st.sampled_from(["auto", 1, 7, None])),
        "momentum": draw(st.sampled_from([0.0, 0.0, 0.9])),
        "standardize": draw(st.sampled_from([False, False, True])),
        "max_iter": draw(st.sampled_from([1, 5, 30])),
        "random_state": 0,
    }
    if not regresses:
        found["class_weight"] = draw(st.sampled_from([None, None, "balanced"]))
    return found


def _of_few_types(rows: Rows) -> Rows:
    """Return the rows in one of the types for which steps are compiled one by one, which takes long."""
    dtype = {"float64": "float64", "float16": "float32", "float32": "float32"}.get(rows.dtype, "uint8")
    return replace(rows, dtype=dtype, layout="csr" if rows.layout.startswith("csr") else "C")


@st.composite
def cases(draw: Any) -> Case:
    """Draw a case."""
    kind = draw(st.sampled_from(["SVC"] * 6 + ["LinearSVC"] * 3 + ["LinearSVR"] + ["SGDClassifier", "SGDRegressor"]))
    rows = draw(rows_of())
    if kind.startswith("SGD"):
        rows = _of_few_types(rows)
    parameters = {
        "SVC": lambda: _svc(rows.classes),
        "LinearSVC": lambda: _linear(regresses=False),
        "LinearSVR": lambda: _linear(regresses=True),
        "SGDClassifier": lambda: _descent(regresses=False),
        "SGDRegressor": lambda: _descent(regresses=True),
    }[kind]()
    return Case(kind, rows, draw(st.sampled_from(ASPECTS)), draw(parameters))
