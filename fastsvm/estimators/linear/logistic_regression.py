"""Logistic regression."""

import numpy as np

from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.fitting.validation import Rule, one_of
from fastsvm.estimators.linear.base_linear_svm import BaseLinearClassifier
from fastsvm.estimators.linear.prediction import LinearProbabilities
from fastsvm.estimators.linear.training_task import loss_of
from fastsvm.losses import Loss


@documented
class LogisticRegression(LinearProbabilities, BaseLinearClassifier):
    """Logistic regression, exact, from memory or from an HDF5 file larger than it.

    Minimises ½‖w‖² or ‖w‖₁ + C Σ log(1 + exp(-y f)), of each class against the rest. The intercept is penalised as a
    weight. This is what `sklearn.linear_model.LogisticRegression(solver="liblinear")` minimises. Its other solvers do
    not penalise the intercept, and have one problem for all classes.

    Parameters
    ----------
    l1_ratio : {0, 1}, default=0.0
        1 is the same as penalty="l1", as in scikit-learn since 1.8. There is no mixture of both penalties.
    dual : bool or "auto", default=False
        Accepted for code written for scikit-learn: the solver works on both problems at once, which have the same
        solution.
    solver : {"auto", "liblinear"}, default="auto"
        Accepted for code written for scikit-learn: both are the same, and mean its "liblinear".
    max_iter : int, default=1000
        Largest number of epochs: Newton steps, with penalty "l1" or for samples in memory. With "l2", and samples
        on disk they are passes of dual coordinate ascent, and ten of these where sparse samples have many features.

    References
    ----------
    Yu, Huang and Lin (2011), Dual coordinate descent methods for logistic regression and maximum entropy models,
    Machine Learning 85. Yuan, Ho and Lin (2012), An improved GLMNET for l1-regularized logistic regression, JMLR 13.
    Rockafellar (1976), Monotone operators and the proximal point algorithm, SIAM Journal on Control and Optimization
    14.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import LogisticRegression
    >>> X = np.array([[-1.0, 0.1], [-2.0, -0.1], [1.0, -0.1], [2.0, 0.1]])
    >>> model = LogisticRegression(penalty="l1", C=2.0).fit(X, [0, 0, 1, 1])
    >>> int((model.coef_ != 0).sum())
    1
    >>> model.predict_proba([[0.0, 5.0]]).round(2)
    array([[0.5, 0.5]])
    """

    def __init__(
        self,
        penalty: str = "l2",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        dual: bool | str = False,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: dict | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        solver: str = "auto",
        max_iter: int = 1000,
        verbose: bool | int = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        memory: str | int = "auto",
        max_time: float | None = None,
        standardize: bool = False,
        criterion: str = "gap",
        window_visits: int | str = "auto",
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.memory = memory
        self.max_time = max_time
        self.standardize = standardize
        self.criterion = criterion
        self.window_visits = window_visits

    def _own_rules(self) -> dict[str, Rule]:
        mixed = Rule(lambda value: value in (0, 1), "0 (penalty ½‖w‖²) or 1 (‖w‖₁), there is no mixture")
        solver = one_of("auto", "liblinear")
        solver = solver._replace(words=f"{solver.words}, as the intercept is penalised and each class has a problem")
        return {"penalty": one_of("l2", "l1"), "l1_ratio": mixed, "solver": solver}

    def _has_l1_penalty(self) -> bool:
        return self.penalty == "l1" or self.l1_ratio == 1

    def _chosen_loss(self) -> Loss:
        return loss_of("log_loss")
