"""Support vector classification with kernels."""

from typing import Any, ClassVar

from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.fitting.parameters import Rule, boolean, number, one_of, optional, seed
from fastsvm.estimators.fitting.validation import TrainingSet
from fastsvm.estimators.kernel.machines.kernel_classifier import KernelClassifier
from fastsvm.estimators.kernel.solver_parameter import SOLVERS, check_solver
from fastsvm.estimators.kernel.statements import Statement, state_classes

__all__ = ["SVC"]

_RULES = {
    "C": number(above=0),
    "loss": one_of("hinge", "squared_hinge"),
    "fit_intercept": boolean,
    "learning_rate": optional(number(above=0)),
    "selection": one_of("cyclic", "random"),
    "random_state": seed,
}


@documented
class SVC(KernelClassifier):
    """C-support vector classification, exact, from memory or from an HDF5 file.

    Names, defaults, attributes and their order are those of `sklearn.svm.SVC`. The fit ends with a
    certificate of how far from the optimum it is.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a margin violation; the larger, the fewer. Very large values give the hard margin on
        separable data.
    solver : {"smo", "coordinate", "primal"}, default="smo"
        "smo" solves the dual problem, two multipliers at a time. "coordinate" solves the dual problem without an
        intercept, one multiplier at a time, until the duality gap is within `tol` of the objective too, and computes
        the intercept afterwards. "primal" minimises over the coefficients of the decision function, by Newton's method
        with `loss="squared_hinge"`, or with a `learning_rate` by gradient descent.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a sample in units of C, max(0, 1 - y f(x)) or its square; the square for "primal" only, which has the
        other with a `learning_rate` only.
    fit_intercept : bool, default=True
        Whether decision values have an intercept. "smo" needs one. With "coordinate" it is no part of the problem,
        but the mean of y - f(x) over the support vectors that are not at their bounds.
    learning_rate : float or None, default=None
        None for exact steps. A rate turns "coordinate" into projected gradient ascent, in which all multipliers move
        at once, and "primal" into gradient descent (of a subgradient for "hinge"), with that rate for all
        steps.
    selection : {"cyclic", "random"}, default="cyclic"
        Order in which "coordinate" updates multipliers.
    class_weight : dict, "balanced" or None, default=None
        Factors of C for each class.
    max_iter : int, default=-1
        Most steps of a two-class problem: of pairs, of coordinates, Newton's, or with `learning_rate` gradient
        steps. -1 is a finite default: max(10,000,000, 100 n) of pairs, 20 times as many of coordinates, 2,000 of
        Newton's, 10,000 with `learning_rate`.
    random_state : int, RandomState or None, default=None
        Seed of the order of multipliers. None draws the same every time.

    Attributes
    ----------
    objective_ : float
        Dual objective Σα - ½ αᵀQα, summed over the two-class problems; for "primal" the primal one,
        ½ βᵀKβ + C Σ loss.

    References
    ----------
    Fan, Chen and Lin (2005), Working set selection using second order information for training support vector
    machines, JMLR 6. Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), A dual coordinate descent method for
    large-scale linear SVM, ICML, equation 9, for "coordinate". Chapelle (2007), Training a support vector machine in
    the primal, Neural Computation 19, for "primal".

    Examples
    --------
    >>> import numpy as np
    >>> from fastsvm import SVC
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> y = np.array(["left", "left", "right", "right"])
    >>> model = SVC(gamma="auto").fit(X, y)
    >>> model.predict([[-0.8, -1.0]])
    array(['left'], dtype='<U5')
    >>> model.converged_
    True
    """

    of_many: ClassVar[str] = "NystroemSVC"

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Any = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        solver: str = "smo",
        loss: str = "hinge",
        fit_intercept: bool = True,
        learning_rate: float | None = None,
        selection: str = "cyclic",
        shrinking: bool = True,
        standardize: bool = False,
        tol: float = 1e-3,
        memory: str | int = "auto",
        probability: bool = False,
        cache_size: float | None = None,
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.learning_rate = learning_rate
        self.selection = selection
        self.shrinking = shrinking
        self.standardize = standardize
        self.tol = tol
        self.memory = memory
        self.probability = probability
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _own_rules(self) -> dict[str, Rule]:
        return {"solver": one_of(*SOLVERS)} | _RULES | super()._own_rules()  # solvers may be added later

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter that is not usable."""
        super()._check_parameters()
        check_solver(self)

    def _state(self, data: TrainingSet) -> Statement:
        return state_classes(self, data)
