"""scikit-learn's own checks, none of them expected to fail.

One loss of each form suffices for a solver: these checks look at estimators, and each loss is new machine code.
"""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from fastsvm import (
    SVC,
    SVR,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    SGDClassifier,
    SGDRegressor,
)
from fastsvm._compiled.threads import at_most

ESTIMATORS = [
    SVC(),
    SVC(kernel="linear"),
    SVC(kernel="precomputed"),
    SVC(solver="coordinate"),
    SVC(solver="primal"),
    SVC(solver="primal", loss="squared_hinge"),
    SVC(solver="primal", n_components=20),
    SVR(),
    SVR(solver="coordinate"),
    SVR(kernel="precomputed"),
    OneClassSVM(),
    NuSVC(nu=0.3),  # 0.5 is infeasible for the weights of some checks
    NuSVR(),
    LinearSVC(),
    LinearSVC(multi_class="crammer_singer"),
    LinearSVR(),
    SGDClassifier(),
    SGDClassifier(loss="softmax"),
    SGDClassifier(loss="log_loss", penalty="l1"),
    SGDRegressor(),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Fit with one thread: handing over to others takes longer than these fits, and changes no bit of them."""
    with at_most(1):
        yield


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # as in scikit-learn's own tests
@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)


def checks_of_a_rate():
    """Yield the checks that a learning rate can pass.

    Before convergence, repeated rows and weighted rows differ. Ties of votes, which are rare among exact solutions,
    are broken by decision values, as a check expects.
    """
    model = SVC(solver="primal", learning_rate=2e-3, max_iter=30, break_ties=True)
    for estimator, check in estimator_checks_generator(model):
        if "sample_weight_equivalence" not in check.func.__name__:
            yield pytest.param(estimator, check, id=check.func.__name__)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks_of_a_rate()))
def test_estimator_checks_of_a_rate(estimator, check):
    check(estimator)
