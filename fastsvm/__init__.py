"""Exact support vector machines, many times faster, on data that need not fit in memory."""

from fastsvm import _interrupt, kernels  # noqa: F401, for its effect
from fastsvm._compiled.threads import note_usual_limits
from fastsvm.compression import compress
from fastsvm.estimators import (
    SVC,
    SVR,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    NystroemFeatures,
    NystroemSVC,
    NystroemSVR,
    OneClassSVM,
    SGDClassifier,
    SGDRegressor,
    SVCSearch,
)
from fastsvm.exchange.model_text import load_libsvm, save_libsvm
from fastsvm.exchange.scikit_learn import from_sklearn, to_sklearn
from fastsvm.persistence.model_file import load, save
from fastsvm.sources import HDF5Data, open_hdf5

__version__ = "0.2.0"

__all__ = [
    "SVC",
    "SVR",
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
    "open_hdf5",
    "save",
    "save_libsvm",
    "to_sklearn",
]

note_usual_limits()  # now that SciPy has loaded its BLAS
