"""scikit-learn's own checks, none of them expected to fail.

One loss of each form suffices for a solver: these checks look at estimators, and each loss is new machine code.
"""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from fastsvm import (
    SVC,
    SVR,
    CalibratedClassifier,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    NystroemFeatures,
    NystroemSVC,
    NystroemSVR,
    OneClassSVM,
    SGDClassifier,
    SGDRegressor,
)
from fastsvm._compiled.threads import at_most

EPOCHS = 100
"""Of gradient descent, in place of at most a thousand."""
ESTIMATORS = [
    SVC(),
    SVC(kernel="precomputed"),
    SVR(),
    OneClassSVM(),
    NuSVC(nu=0.3),  # 0.5 is infeasible for the weights of some checks
    NuSVR(),
    LinearSVC(),
    LinearSVR(),
    LinearOneClassSVM(),
    LogisticRegression(),
    NystroemFeatures(),
    NystroemSVC(),
    NystroemSVR(),
    SGDClassifier(max_iter=EPOCHS),
    SGDRegressor(max_iter=EPOCHS),
    CalibratedClassifier(),
]
OTHER_SOLVERS = [
    SVC(kernel="linear"),
    SVC(solver="coordinate"),
    SVC(solver="primal", loss="squared_hinge"),
    SVC(solver="primal", learning_rate=2e-3, max_iter=30, break_ties=True),
    SVR(solver="coordinate"),
    SVR(kernel="precomputed"),
    LinearSVC(multi_class="crammer_singer"),
    LinearSVC(penalty="l1"),
    LogisticRegression(penalty="l1"),
    NystroemSVC(multi_class="crammer_singer", landmarks="rpcholesky", n_components=20),
    SGDClassifier(loss="softmax", max_iter=EPOCHS),
    SGDClassifier(penalty="l1", max_iter=EPOCHS),
]
DEPEND_ON_SOLVERS = (
    "sample_weight_equivalence", "classifiers_train", "regressors_train", "regressors_int", "one_label", "classes",
    "class_weight", "fit2d", "methods", "idempotent", "dtypes",
)  # fmt: skip
"""Parts of the names of checks that look at solutions; the others look at parameters, tags and messages."""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Fit with one thread: handing over to others takes longer than these fits, and changes no bit of them."""
    with at_most(1):
        yield


def checks_of(models):
    """Yield all checks, for a list: `parametrize_with_checks` of scikit-learn 1.6 gives what pytest 10 refuses."""
    for model in models:
        name = repr(model)  # which takes half a millisecond
        for estimator, check in estimator_checks_generator(model):
            yield pytest.param(estimator, check, id=f"{name}-{check.func.__name__}")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # as in scikit-learn's own tests
@pytest.mark.parametrize(("estimator", "check"), list(checks_of(ESTIMATORS)))
def test_estimator_checks(estimator, check):
    check(estimator)


def checks_of_solvers():
    """Yield the checks of other solvers.

    Before convergence, which a learning rate does not reach, repeated rows and weighted rows differ. Ties of votes,
    which are rare among exact solutions, are broken by decision values, as a check expects.
    """
    for each in checks_of(OTHER_SOLVERS):
        model, check = each.values
        name = check.func.__name__
        is_early = getattr(model, "learning_rate", None) == 2e-3 and "sample_weight_equivalence" in name
        if any(part in name for part in DEPEND_ON_SOLVERS) and not is_early:
            yield each


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks_of_solvers()))
def test_estimator_checks_of_other_solvers(estimator, check):
    check(estimator)
