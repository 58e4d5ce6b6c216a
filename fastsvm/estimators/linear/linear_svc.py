"""Linear support vector classification."""

from dataclasses import KW_ONLY

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.validation import Rule, one_of
from fastsvm.estimators.linear.base_linear_svm import BaseLinearClassifier
from fastsvm.estimators.linear.training_task import loss_of, loss_rule
from fastsvm.losses import LOSSES, Loss, loss_names, provides_newton

_RULES = {
    "penalty": one_of("l2", "l1"),
    "loss": loss_rule("labels", dual=True),
    "multi_class": loss_rule("classes", dual=True, others=("ovr",)),
}


@documented
@parametrised
class LinearSVC(BaseLinearClassifier):
    """Linear support vector classification, exact, from memory or from an HDF5 file larger than it.

    Minimises ½‖w‖² or ‖w‖₁ + C Σ loss, of each class against the rest or of all at once. Names and meanings are those
    of `sklearn.svm.LinearSVC` where it has them; different are that `tol` bounds the duality gap, that all classes are
    learnt in the same passes over the samples, and that nothing is copied. The default of `tol` is not scikit-learn's
    1e-4, which takes up to 16 times as long, with the same accuracy on test samples.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "log_loss"} or a loss object, default="squared_hinge"
        Loss of a class against the rest. "log_loss" is that of logistic regression.
        "crammer_singer" and "weston_watkins" have hinges of their own.
        A loss object is one that `fastsvm.losses.register_loss` registered. `fastsvm.save` refuses models with it.
    multi_class : {"ovr", "crammer_singer", "weston_watkins"}, default="ovr"
        Of several classes each against the rest, or one problem for all with the loss
        max(0, 1 + max s_j - s_y) or Σ max(0, 1 + s_j - s_y), j ≠ y (Crammer and Singer 2001; Weston and Watkins 1999).
    max_iter : int, default=1000
        Largest number of epochs, passes over the samples that change the weights, or up to ten of these for sparse
        samples of many features. Newton steps follow within this limit if the epochs do not suffice and there are few
        features or few samples. With penalty "l1", or the squared hinge loss and at least 10,000 samples in memory of
        at most 256 features, an epoch is a Newton step, of two or three passes.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM,
    ICML, algorithm 1. Yu, Hsieh, Chang and Lin (2012), Large linear classification when data cannot fit in memory,
    ACM TKDD 5. Rockafellar (1976), Monotone operators and the proximal point algorithm, SIAM Journal on Control and
    Optimization 14. Yan and Li (2020), An efficient augmented Lagrangian method for support vector machine,
    Optimization Methods and Software 35. Keerthi, Sundararajan, Chang, Hsieh and Lin (2008), A sequential dual method
    for large scale multi-class linear SVMs, KDD, section 3. Yuan, Ho and Lin (2012), An improved GLMNET for
    l1-regularized logistic regression, JMLR 13. Wang and Scott (2021), An exact solver for the Weston-Watkins SVM
    subproblem, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import LinearSVC
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> y = np.array(["left", "left", "right", "right"])
    >>> model = LinearSVC(random_state=0).fit(X, y)
    >>> model.predict([[-0.8, -1.0]])
    array(['left'], dtype='<U5')
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    penalty: str = "l2"
    loss: str = "squared_hinge"
    _: KW_ONLY
    C: float = 1.0
    dual: bool | str = "auto"
    multi_class: str = "ovr"
    criterion: str = "gap"
    window_visits: int | str = "auto"

    def _own_rules(self) -> dict[str, Rule]:
        return _RULES

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self._has_l1_penalty():
            return
        if self.multi_class != "ovr":
            raise ValueError(
                f"penalty='l1' learns each class against the rest, and multi_class is {self.multi_class!r}: pass "
                "multi_class='ovr', or penalty='l2'."
            )
        if not provides_newton(type(loss_of(self.loss))):
            smooth = [name for name in loss_names("labels", dual=True) if provides_newton(LOSSES[name])]
            raise ValueError(
                f"penalty='l1' needs a smooth loss, and loss={self.loss!r} has a kink: pass one of "
                f"{', '.join(map(repr, smooth))}, or penalty='l2'."
            )

    def _has_l1_penalty(self) -> bool:
        return self.penalty == "l1"

    def _chosen_loss(self) -> Loss:
        return loss_of(self.loss if self.multi_class == "ovr" else self.multi_class)
