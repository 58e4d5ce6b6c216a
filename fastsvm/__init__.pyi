from fastsvm import kernels
from fastsvm.compression import compress
from fastsvm.estimators.kernel.machines.classifiers import SVC, NuSVC
from fastsvm.estimators.kernel.machines.one_class_svm import OneClassSVM
from fastsvm.estimators.kernel.machines.regressors import SVR, NuSVR
from fastsvm.estimators.linear.linear_one_class_svm import LinearOneClassSVM
from fastsvm.estimators.linear.linear_svc import LinearSVC
from fastsvm.estimators.linear.linear_svr import LinearSVR
from fastsvm.estimators.linear.logistic_regression import LogisticRegression
from fastsvm.estimators.linear.sgd_classifier import SGDClassifier
from fastsvm.estimators.linear.sgd_regressor import SGDRegressor
from fastsvm.estimators.nystroem.nystroem_features import NystroemFeatures
from fastsvm.estimators.nystroem.nystroem_svm import NystroemSVC, NystroemSVR
from fastsvm.estimators.search.calibration import CalibratedClassifier
from fastsvm.estimators.search.svc_search import SVCSearch
from fastsvm.exchange.model_text import load_libsvm, save_libsvm
from fastsvm.exchange.scikit_learn import from_sklearn, to_sklearn
from fastsvm.persistence.model_file import load, save
from fastsvm.sources import Data, HDF5Data, open_hdf5
from fastsvm.sources.opening import open

__version__: str

__all__ = [
    "SVC",
    "SVR",
    "CalibratedClassifier",
    "Data",
    "HDF5Data",
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "NuSVC",
    "NuSVR",
    "NystroemFeatures",
    "NystroemSVC",
    "NystroemSVR",
    "OneClassSVM",
    "SGDClassifier",
    "SGDRegressor",
    "SVCSearch",
    "compress",
    "from_sklearn",
    "kernels",
    "load",
    "load_libsvm",
    "open",
    "open_hdf5",
    "save",
    "save_libsvm",
    "to_sklearn",
]
