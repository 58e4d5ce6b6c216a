"""All estimators, and those that can be trained by jobs by their names."""

from fastsvm.estimators.kernel.machines.classifiers import SVC, NuSVC
from fastsvm.estimators.kernel.machines.one_class_svm import OneClassSVM
from fastsvm.estimators.kernel.machines.regressors import SVR, NuSVR
from fastsvm.estimators.linear.linear_one_class_svm import LinearOneClassSVM
from fastsvm.estimators.linear.linear_svc import LinearSVC
from fastsvm.estimators.linear.linear_svr import LinearSVR
from fastsvm.estimators.linear.logistic_regression import LogisticRegression
from fastsvm.estimators.linear.sgd_classifier import SGDClassifier
from fastsvm.estimators.linear.sgd_regressor import SGDRegressor
from fastsvm.estimators.nystroem.nystroem_svm import NystroemSVC, NystroemSVR

ESTIMATORS = {
    "svc": SVC,
    "svr": SVR,
    "one-class": OneClassSVM,
    "nu-svc": NuSVC,
    "nu-svr": NuSVR,
    "linear": LinearSVC,
    "linear-regressor": LinearSVR,
    "linear-one-class": LinearOneClassSVM,
    "logistic": LogisticRegression,
    "nystroem": NystroemSVC,
    "nystroem-regressor": NystroemSVR,
    "sgd": SGDClassifier,
    "sgd-regressor": SGDRegressor,
}
"""Estimators that can be trained by jobs and stored in model files, by the names that the command line gives them."""
