"""Estimators: validate, state the problem, solve, leave fitted attributes."""

from fastsvm.estimators.kernel.svc import SVC
from fastsvm.estimators.linear.linear_svc import LinearSVC
from fastsvm.estimators.linear.linear_svr import LinearSVR
from fastsvm.estimators.linear.sgd_classifier import SGDClassifier
from fastsvm.estimators.linear.sgd_regressor import SGDRegressor
from fastsvm.estimators.search.svc_search import SVCSearch

__all__ = ["ESTIMATORS", "SVC", "LinearSVC", "LinearSVR", "SGDClassifier", "SGDRegressor", "SVCSearch"]

ESTIMATORS = {
    "svc": SVC,
    "linear": LinearSVC,
    "linear-regressor": LinearSVR,
    "sgd": SGDClassifier,
    "sgd-regressor": SGDRegressor,
}
"""Estimators that can be trained by jobs and stored in model files, by the names that the command line gives them."""
