"""Estimators: validate, state the problem, solve, leave fitted attributes."""

from fastsvm.estimators.svc import SVC

__all__ = ["SVC"]
