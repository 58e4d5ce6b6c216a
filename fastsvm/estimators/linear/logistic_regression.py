"""Logistic regression."""

from dataclasses import KW_ONLY

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.validation import Rule, one_of
from fastsvm.estimators.linear.base_linear_svm import BaseLinearClassifier
from fastsvm.estimators.linear.prediction import LinearProbabilities
from fastsvm.estimators.linear.training_task import loss_of
from fastsvm.losses import Loss


@documented
@parametrised
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

    penalty: str = "l2"
    _: KW_ONLY
    C: float = 1.0
    l1_ratio: float = 0.0
    dual: bool | str = False
    solver: str = "auto"
    n_jobs: int | None = None
    criterion: str = "gap"
    window_visits: int | str = "auto"

    def _own_rules(self) -> dict[str, Rule]:
        mixed = Rule(lambda value: value in (0, 1), "0 (penalty ½‖w‖²) or 1 (‖w‖₁), there is no mixture")
        solver = one_of("auto", "liblinear")
        solver = solver._replace(words=f"{solver.words}, as the intercept is penalised and each class has a problem")
        return {"penalty": one_of("l2", "l1"), "l1_ratio": mixed, "solver": solver}

    def _has_l1_penalty(self) -> bool:
        return self.penalty == "l1" or self.l1_ratio == 1

    def _chosen_loss(self) -> Loss:
        return loss_of("log_loss")
