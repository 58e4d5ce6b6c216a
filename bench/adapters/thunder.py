"""ThunderSVM on the processor (thundersvm-cpu), called through its library.

The library is called as the package's own estimator calls it, with two differences. There is no loop in Python over
every feature of every support vector, which takes longer than the fit for some thousand features. And labels of sparse
samples are float32, which the library reads there, not int32.
"""

from ctypes import c_float, c_int, c_void_p
from typing import Any

import numpy as np
from scipy import sparse
from thundersvm.thundersvm import KERNEL_TYPE, thundersvm

from bench.adapters.layout import sorted_layout

__all__ = ["ThunderSVC"]

_NAMES = {"poly": "polynomial"}
_NO_WEIGHTS = 0, None, None
_QUIET, _NO_LIMIT, _FIRST_DEVICE = 0, -1, 0

thundersvm.model_new.restype = c_void_p


class ThunderSVC:
    """C-SVC. X should be float32: a C-contiguous array or a CSR matrix."""

    def __init__(
        self, kernel: str, C: float, gamma: float, degree: int, coef0: float, tol: float, n_jobs: int, max_mem_size: int
    ) -> None:
        kind = KERNEL_TYPE.index(_NAMES.get(kernel, kernel))
        numbers = (c_float(value) for value in (gamma, coef0, C, 0.0, 0.0, tol))
        self._given = kind, degree, *numbers, 0, *_NO_WEIGHTS, _QUIET, _NO_LIMIT, n_jobs, max_mem_size, _FIRST_DEVICE
        self._memory = max_mem_size
        self._model: Any = None

    def __del__(self) -> None:
        if self._model is not None:
            thundersvm.model_free(self._model)

    def fit(self, X: Any, y: np.ndarray) -> "ThunderSVC":
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.__del__()
        self._model = c_void_p(thundersvm.model_new(0))
        thundersvm.set_memory_size(self._model, self._memory)
        n_features, n_classes, succeeded = (c_int * 1)(), (c_int * 1)(), (c_int * 1)()
        train = thundersvm.sparse_model_scikit if sparse.issparse(X) else thundersvm.dense_model_scikit
        labels = codes.astype(np.float32)
        train(*_rows(X), _pointer(labels), 0, *self._given, n_features, n_classes, succeeded, self._model)
        if succeeded[0] == -1:
            raise RuntimeError("ThunderSVM could not train")
        self._collect(codes, X.shape[1])
        return self

    def _collect(self, codes: np.ndarray, n_features: int) -> None:
        """Read the answer from the library."""
        n_support, n_classes = thundersvm.n_sv(self._model), len(self.classes_)
        self.support_ = np.empty(n_support, np.int32)
        indptr, size = np.empty(n_support + 1, np.int32), np.empty(1, np.int32)
        indices = np.empty(n_support * n_features, np.int32)
        values = np.empty(n_support * n_features, np.float32)
        thundersvm.get_sv(*map(_pointer, (indptr, indices, values, size, self.support_)), self._model)
        coef = np.empty((n_classes - 1, n_support), np.float32)
        thundersvm.get_coef(_pointer(coef), n_classes, n_support, self._model)
        rho = np.empty(n_classes * (n_classes - 1) // 2, np.float32)
        thundersvm.get_rho(_pointer(rho), len(rho), self._model)
        self.dual_coef_, self.intercept_ = sorted_layout(codes, self.support_, coef, rho)

    def predict(self, X: Any) -> np.ndarray:
        labels = np.empty(X.shape[0], np.float32)
        predict = thundersvm.sparse_predict if sparse.issparse(X) else thundersvm.dense_predict
        predict(*_rows(X), self._model, _pointer(labels), _QUIET)
        return self.classes_[labels.astype(np.int64)]


def _rows(X: Any) -> tuple:
    """Return how many rows there are, and where."""
    if sparse.issparse(X):
        return X.shape[0], *map(_pointer, (X.data, X.indptr, X.indices))
    return *X.shape, _pointer(X)


def _pointer(values: np.ndarray) -> c_void_p:
    return c_void_p(values.ctypes.data)
