"""Which estimators jobs and the command line know, by which names."""

from fastsvm.estimators import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor

__all__ = ["MODELS"]

MODELS = {
    "svc": SVC,
    "linear": LinearSVC,
    "linear-regressor": LinearSVR,
    "sgd": SGDClassifier,
    "sgd-regressor": SGDRegressor,
}
"""Estimators by the names that jobs and the command line give them."""
