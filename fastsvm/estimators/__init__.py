"""Estimators: validate, state the problem, solve, leave fitted attributes."""

from fastsvm.estimators.sgd import SGDClassifier, SGDRegressor
from fastsvm.estimators.svc import SVC

__all__ = ["SVC", "SGDClassifier", "SGDRegressor"]
