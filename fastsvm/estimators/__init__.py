"""Estimators: validate, state the problem, solve, leave fitted attributes."""

from fastsvm.estimators.kernel.svc import SVC
from fastsvm.estimators.linear.linear_svc import LinearSVC
from fastsvm.estimators.linear.linear_svr import LinearSVR
from fastsvm.estimators.linear.sgd_classifier import SGDClassifier
from fastsvm.estimators.linear.sgd_regressor import SGDRegressor
from fastsvm.estimators.search.svc_search import SVCSearch

__all__ = ["SVC", "LinearSVC", "LinearSVR", "SGDClassifier", "SGDRegressor", "SVCSearch"]
