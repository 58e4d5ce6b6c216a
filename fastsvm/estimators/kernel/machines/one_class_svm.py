"""The one-class SVM: where samples are dense."""

from dataclasses import KW_ONLY

import numpy as np

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.predictions import OutlierDetector
from fastsvm.estimators.fitting.validation import Attributes, TrainingSet
from fastsvm.estimators.kernel.machines.kernel_machine import KernelMachine
from fastsvm.estimators.kernel.one_vs_one import Outcome
from fastsvm.estimators.kernel.prepare import Statement
from fastsvm.solvers.kernel_dual.problem import Problems


@documented
@parametrised
class OneClassSVM(OutlierDetector, KernelMachine):
    """Support of a distribution, and outliers beyond it, exact, from memory or from an HDF5 file.

    Names, defaults and attributes are those of `sklearn.svm.OneClassSVM`. Minimises
    ½ ‖w‖² - ν n ρ + Σ max(0, ρ - w·φ(x)). The fit ends with a certificate of how far from the optimum it is.

    Attributes
    ----------
    dual_coef_ : ndarray or CSR matrix of float64, shape (1, n_SV)
        Multipliers of the support vectors, whose sum is ν times that of the sample weights.
    objective_ : float
        Dual objective -½ αᵀKα.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson (2001), Estimating the support of a high-dimensional
    distribution, Neural Computation 13. Chang and Lin (2011), LIBSVM, ACM TIST 2, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import OneClassSVM
    >>> X = np.array([[0.0], [0.44], [0.45], [0.46], [1.0]])
    >>> OneClassSVM(gamma="auto").fit(X).predict([[0.45], [5.0]])
    array([ 1, -1])
    """

    follows = ("nu",)

    _: KW_ONLY
    nu: float = 0.5

    def _state(self, data: TrainingSet) -> Statement:
        """Return the problem of the support of a distribution, in which the multipliers sum to ν Σ weights."""

        def problems(labels: np.ndarray, upper: np.ndarray) -> Problems:
            rows = (labels == 0).nonzero()[0]
            n, upper = len(rows), upper[rows]
            return Problems.only(rows, np.ones(n), upper, np.zeros(n), self.nu * float(upper.sum()), 1)

        labels = np.where(data.weight > 0, 0, -1)
        return Statement(np.empty(0), labels, data.weight, problems, {}, lambda: labels)

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> Attributes:
        return super()._expansion(outcome, classes) | {"offset_": -outcome.intercept}
