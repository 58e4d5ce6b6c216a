"""Linear support vector regression."""

from dataclasses import KW_ONLY

from fastsvm.estimators.fitting.documentation import documented, parametrised
from fastsvm.estimators.fitting.validation import Rule
from fastsvm.estimators.linear.base_linear_svm import BaseLinearRegressor
from fastsvm.estimators.linear.training_task import loss_rule


@documented
@parametrised
class LinearSVR(BaseLinearRegressor):
    """Linear support vector regression, exact, from memory or from an HDF5 file larger than it.

    Minimises ½‖w‖² + C Σ loss. Names and meanings are those of `sklearn.svm.LinearSVR` where it has them; different
    are that `tol` bounds the duality gap and that nothing is copied.

    Parameters
    ----------
    epsilon : float, default=0.0
        Distance from the target up to which there is no loss.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"} or a loss object, default="epsilon_insensitive"
        max(0, |f - y| - epsilon), or its square.
        A loss object is one that `fastsvm.losses.register_loss` registered. `fastsvm.save` refuses models with it.
    max_iter : int, default=1000
        Largest number of epochs, which are passes over the samples that change the weights. Newton steps follow within
        this limit if the epochs do not suffice and there are few features or few samples. With the squared loss and at
        least 10,000 samples in memory of at most 256 features, an epoch is a Newton step, of two or three passes.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM,
    ICML, algorithm 1. Yu, Hsieh, Chang and Lin (2012), Large linear classification when data cannot fit in memory,
    ACM TKDD 5. Rockafellar (1976), Monotone operators and the proximal point algorithm, SIAM Journal on Control and
    Optimization 14. Yan and Li (2020), An efficient augmented Lagrangian method for support vector machine,
    Optimization Methods and Software 35. Ho and Lin (2012), Large-scale linear support vector regression, JMLR 13,
    algorithm 4.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import LinearSVR
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = LinearSVR(C=10, random_state=0).fit(X, 3 * X[:, 0] - 1)
    >>> bool(model.score(X, 3 * X[:, 0] - 1) > 0.99)
    True
    """

    _: KW_ONLY
    C: float = 1.0
    epsilon: float = 0.0
    loss: str = "epsilon_insensitive"
    dual: bool | str = "auto"
    criterion: str = "gap"
    window_visits: int | str = "auto"

    def _own_rules(self) -> dict[str, Rule]:
        return {"loss": loss_rule("numbers", dual=True)}
