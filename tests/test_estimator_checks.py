"""scikit-learn's own checks, none of them expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fastsvm import SVC, SGDClassifier, SGDRegressor

ESTIMATORS = [
    SVC(),
    SVC(kernel="linear"),
    SVC(kernel="precomputed"),
    SGDClassifier(),
    SGDClassifier(loss="softmax"),
    SGDClassifier(loss="log_loss", penalty="l1"),
    SGDRegressor(),
    SGDRegressor(loss="huber", early_stopping=False),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # as in scikit-learn's own tests
@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)
