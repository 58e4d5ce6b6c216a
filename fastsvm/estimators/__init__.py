"""Estimators: validate, state the problem, solve, leave fitted attributes."""

from fastsvm.estimators.linear import LinearSVC, LinearSVR
from fastsvm.estimators.search import SVCSearch
from fastsvm.estimators.sgd import SGDClassifier, SGDRegressor
from fastsvm.estimators.svc import SVC

__all__ = ["SVC", "LinearSVC", "LinearSVR", "SGDClassifier", "SGDRegressor", "SVCSearch"]
