"""The linear one-class SVM: outliers among millions of samples."""

from dataclasses import KW_ONLY

import numpy as np

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.predictions import OutlierDetector
from fastsvm.estimators.fitting.validation import Attributes, TrainingSet
from fastsvm.estimators.linear.base_linear_svm import BaseLinearSVM
from fastsvm.estimators.linear.training_task import Task, loss_of
from fastsvm.losses import Loss


@documented
@parametrised
class LinearOneClassSVM(OutlierDetector, BaseLinearSVM):
    """Linear one-class SVM, exact, from memory or from an HDF5 file larger than it.

    Minimises ½ ‖w‖² - ν n ρ + Σ max(0, ρ - w·x), as `OneClassSVM` with the linear kernel, LIBSVM, and `train -s 21` of
    LIBLINEAR. A sample is an outlier if w·x is less than the offset ρ. The boundary is a hyperplane that separates
    samples from the origin: features should have a meaningful zero, as counts, intensities and random features of a
    kernel have.

    Parameters
    ----------
    tol : float, default=1e-3
        The fit ends when (P - D) / |P| is at most this, with the objective P and a lower bound D of what it could be.
        Where the optimum is w = 0, as for features whose means are 0, P - D is relative to 1e-6 of the objective of
        samples that are all the same.
    max_iter : int, default=1000
        Largest number of epochs. They are rounds, in which the samples that violate the optimality conditions most
        exchange mass in pairs. Where rounds are slow, Newton steps take turns with them, if the samples are in memory
        and not too many for that.
    standardize : bool, default=False
        Whether features are standardised during the fit, by statistics of one more pass over the samples. The means
        of dense samples are then 0, and little is left to be learnt; sparse samples are scaled only. The stored samples
        do not change. `coef_` and `offset_` are for samples as they are passed.

    Attributes
    ----------
    objective_ : float
        The objective of these weights, which is negative unless they are 0.
    dual_objective_ : float
        -½ ‖Σ α x‖² of feasible dual variables α, a lower bound of the minimum.

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola and Williamson (2001), Estimating the support of a high-dimensional
    distribution, Neural Computation 13. Chou, Lin and Lin (2020), Dual coordinate-descent methods for linear one-class
    SVM and SVDD, SDM. Rockafellar (1976), Augmented Lagrangians and applications of the proximal point algorithm in
    convex programming, Mathematics of Operations Research 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import LinearOneClassSVM
    >>> X = np.random.default_rng(0).exponential(size=(1000, 5)) + 1
    >>> model = LinearOneClassSVM(nu=0.1, random_state=0).fit(X)
    >>> float((model.predict(X) == -1).mean().round(2))
    0.1
    >>> model.predict([[0.5, 0.5, 0.5, 0.5, 0.5]])
    array([-1])
    """

    # What the siblings let choose: weights are factors of 1, the offset is a scaled weight, and `tol` bounds the gap.
    C, fit_intercept, intercept_scaling, dual, criterion = 1.0, True, 1.0, "auto", "gap"

    _: KW_ONLY
    nu: float = 0.5
    window_visits: int | str = "auto"

    def _chosen_loss(self) -> Loss:
        return loss_of("perceptron")

    def _task(self, data: TrainingSet, loss: Loss) -> tuple[Task, Attributes]:
        source, total = self._standardized(data.source, data.weight), float(data.weight.sum())
        labels = np.ones(len(data.weight))
        return Task(source, labels, data.weight, total, np.ones(1), of_classes=False, share=float(self.nu)), {}

    def _shaped(self, coef: np.ndarray, intercept: np.ndarray) -> dict[str, np.ndarray]:
        return {"coef_": coef, "intercept_": intercept, "offset_": -intercept}
