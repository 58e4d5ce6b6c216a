"""LIBSVM with the interface of its authors (libsvm-official). Its threads compute kernel rows."""

from ctypes import c_double
from typing import Any

import numpy as np
from libsvm.svm import kernel_names, libsvm, svm_model, svm_problem
from libsvm.svmutil import svm_train
from scipy import sparse

from bench.adapters.layout import sorted_layout

__all__ = ["LibsvmSVC"]


class LibsvmSVC:
    """C-SVC. X should be a CSR matrix of float64, which `svm_problem` reads without a loop in Python."""

    def __init__(
        self, kernel: str, C: float, gamma: float, degree: int, coef0: float, tol: float, cache_size: int
    ) -> None:
        kind = int(kernel_names[kernel.upper()])
        self._options = f"-q -s 0 -t {kind} -c {C!r} -g {gamma!r} -d {degree} -r {coef0!r} -e {tol!r} -m {cache_size}"

    def fit(self, X: sparse.csr_matrix, y: np.ndarray) -> "LibsvmSVC":
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._model = model = svm_train(svm_problem(codes.astype(np.float64), X), self._options)
        self.support_ = np.array(model.sv_indices[: model.l]) - 1
        coef = np.array([np.ctypeslib.as_array(row, (model.l,)) for row in model.sv_coef[: model.nr_class - 1]])
        rho = np.array(model.rho[: model.nr_class * (model.nr_class - 1) // 2])
        self.dual_coef_, self.intercept_ = sorted_layout(codes, self.support_, coef, rho)
        return self

    def predict(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return labels, without `svm_predict`, which loops in Python over every feature of every sample."""
        rows = svm_problem(np.zeros(X.shape[0]), X)
        return self.classes_[[int(_label(self._model, row)) for row in rows.x[: rows.l]]]


def _label(model: svm_model, row: Any) -> float:
    values = (c_double * (model.nr_class * (model.nr_class - 1) // 2))()
    return libsvm.svm_predict_values(model, row, values)
