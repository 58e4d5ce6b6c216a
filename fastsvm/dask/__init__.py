"""Machines on the workers of a Dask cluster, and predictions of every model; the extra `dask` installs Dask."""

try:
    import dask.array
    import distributed

    del dask, distributed  # only whether they are there
except ImportError as error:
    raise ImportError(
        f"fastsvm.dask needs dask and distributed, and {error.name or 'one of them'} is not installed: "
        "pip install 'fastsvm[dask]'."
    ) from error

from fastsvm.dask.linear import LinearSVC, LinearSVR
from fastsvm.dask.nystroem_svc import NystroemSVC
from fastsvm.dask.prediction import decision_function, predict, score, transform
from fastsvm.dask.sgd_classifier import SGDClassifier
from fastsvm.dask.svc import SVC
from fastsvm.dask.tasks import ClusterLost

__all__ = [
    "SVC",
    "ClusterLost",
    "LinearSVC",
    "LinearSVR",
    "NystroemSVC",
    "SGDClassifier",
    "decision_function",
    "predict",
    "score",
    "transform",
]
