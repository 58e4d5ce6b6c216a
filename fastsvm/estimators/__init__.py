"""Estimators: validate, state the problem, solve, leave fitted attributes."""

from fastsvm.estimators.linear_svc import LinearSVC
from fastsvm.estimators.linear_svr import LinearSVR
from fastsvm.estimators.search import SVCSearch
from fastsvm.estimators.sgd_classifier import SGDClassifier
from fastsvm.estimators.sgd_regressor import SGDRegressor
from fastsvm.estimators.svc import SVC

__all__ = ["SVC", "LinearSVC", "LinearSVR", "SGDClassifier", "SGDRegressor", "SVCSearch"]
