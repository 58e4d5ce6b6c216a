"""scikit-learn's own checks, none of them expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from fastsvm import SVC

ESTIMATORS = [SVC(), SVC(kernel="linear"), SVC(kernel="precomputed")]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)
