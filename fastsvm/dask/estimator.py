"""What estimators on a cluster have in common: the client, and predictions by the local model.

They are made from those of one machine: what they do not say is as it is there.
"""

import inspect
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

import dask.array as da
import numpy as np
from distributed import Client, get_client
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fastsvm.dask.prediction import PredictionsOnCluster, decision_function, predict, score
from fastsvm.dask.rows import ClusterFit, ShardFacts, joined_facts, load_shards
from fastsvm.dask.tasks import Tasks
from fastsvm.estimators.fitting.documentation import Learning, constructor, described, documentation, documented_by
from fastsvm.estimators.fitting.session import FitSession, drafted, of_one_model
from fastsvm.estimators.fitting.validation import check_rules, class_weights, forget, number, optional

_Estimator = TypeVar("_Estimator", bound=type)
_OF_CLUSTER = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for name, kind in {"client": Client | None, "n_shards": int | None}.items()
}


class DistributedEstimator(BaseEstimator):
    """An estimator that learns on the workers of a cluster; its fitted attributes are plain arrays.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The connection to the cluster; None takes the current one. Clones and pickles do not keep it.
    n_shards : int or None, default=None
        Number of shards, in each of which consecutive blocks are joined; None takes one for each worker, or for each
        block if there are fewer. With the same shards each bit of the model is the same for any number of workers and
        threads. More shards take more rounds.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernel. "scale" takes the variance of the samples of all shards.
    max_iter : int, default=1000
        Largest number of rounds.
    memory : "auto", int or str, default="auto"
        Bytes that a task may use beside its samples; "auto" is half of what a worker may use, divided by its threads.
    standardize : bool, default=False
        Whether features are standardised to mean 0 and variance 1 over all shards, by one more pass of the workers.
        The stored samples do not change, and the model is for samples as they are passed. Sparse samples are scaled
        only.

    Attributes
    ----------
    n_iter_ : int
        Rounds.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "stalled".
    workers_ : dict of str to dict
        What each worker did, by address: rows, and seconds of reading, computing and waiting. Lost ones are left out.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from fastsvm.dask import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> rows, labels = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = SVC(standardize=True).fit(rows, labels)
    >>> bool(model.to_local().score(X, y) > 0.9)
    True
    """

    _local: type[BaseEstimator]
    _of_rows: tuple[str, ...] = ("_shift", "_scale")  # fitted attributes that models keep to themselves
    _warn: staticmethod  # It warns if a fit did not converge.
    client: Client | None

    @documented_by(Learning)
    @drafted
    def fit(self, X: object, y: object = None, sample_weight: object = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask array, dask dataframe, list of delayed or futures, path or list of paths, \
shape (n_samples, n_features)
            Samples: dense or CSR blocks, or HDF5, Parquet or Zarr files that the workers read.
        y : dask array, series, list of delayed or futures, of shape (n_samples,), str or None
            Labels, numbers or strings, or the targets of a regression, in the blocks of X. HDF5 files have their own:
            None. Of Parquet and Zarr files the name of a column or an array; None is "y".
        sample_weight : as y, or None
            Factors of the samples' losses. Samples of weight 0 are left out. None takes those of files that have
            "sample_weight".
        """
        self._check_parameters()
        forget(self)
        begin, tasks, session = time.perf_counter(), Tasks.of(self._client()), FitSession(self)
        last, of_classes = session.resume_from, self._local.of_classes
        n_shards = self.n_shards if last is None else len(last.sizes)
        rows, facts = load_shards(tasks, X, y, sample_weight, n_shards, of_classes)
        sizes = [one.shape[0] for one in facts]
        if last is not None and last.sizes != sizes:
            raise ValueError(
                f"Cannot resume the fit: its shards had {last.sizes} rows, and now have {sizes}. Pass the same data in "
                "the same blocks."
            )
        whole = joined_facts(facts, of_classes)
        self.n_features_in_ = whole.shape[1]
        if whole.names is not None:
            self.feature_names_in_ = whole.names
        self._learn(ClusterFit(tasks, session, begin, rows, sizes, facts, whole))
        self.workers_ = tasks.accounts(time.perf_counter() - begin)
        self._warn(self)
        return self

    @abstractmethod
    def _learn(self, fit: ClusterFit) -> None:
        """Learn from the samples that the workers hold, and set the fitted attributes."""

    def _factors(self, whole: ShardFacts) -> np.ndarray:
        """Return the factors of the weights of each class, by the rows of all shards."""
        return class_weights(self.class_weight, whole.labels, np.arange(len(whole.labels)), whole.weights)

    def _unfitted_local(self) -> BaseEstimator:
        """Return the estimator of one machine with the same parameters."""
        names = self._local._get_param_names()
        return self._local(**{name: value for name, value in self.get_params(deep=False).items() if name in names})

    def _check_parameters(self) -> None:
        """Raise ValueError for a parameter that is not usable."""
        self._unfitted_local()._check_parameters()
        check_rules(self, {"n_shards": optional(number(integral=True, least=1))})

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters but for the client: a clone takes the current one.

        Parameters
        ----------
        deep : bool, default=True
            Without effect.

        Returns
        -------
        dict
            Values by name.
        """
        return {name: value for name, value in super().get_params(deep).items() if name != "client"}

    def __getstate__(self) -> dict[str, object]:
        """Return what is pickled: not the client."""
        return super().__getstate__() | {"client": None}

    def _client(self) -> Client:
        """Return the client, or the current one."""
        if self.client is not None:
            return self.client
        try:
            return get_client()
        except ValueError as error:
            raise ValueError(
                "There is no Dask client: make one, as by distributed.Client(), or pass client=... to the estimator."
            ) from error

    @of_one_model
    def to_local(self) -> BaseEstimator:
        """Return the model as an estimator of fastsvm, which needs no cluster and can be saved.

        Returns
        -------
        estimator
            With the same parameters and fitted attributes.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        local = self._unfitted_local()
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}
        fitted.pop("workers_", None)
        local.__dict__.update(fitted | {name: getattr(self, name) for name in self._of_rows})
        return local

    @documented_by(PredictionsOnCluster)
    def predict(self, X: object) -> da.Array | np.ndarray:
        """Return the prediction of each sample.

        Returns
        -------
        dask array, or ndarray, of shape (n_samples,)
            Computed later, by the workers, if X is a collection of Dask.
        """
        return predict(self.to_local(), X)

    @documented_by(PredictionsOnCluster)
    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the share of correct classes, or R² of a regression.

        Returns
        -------
        float
            At most 1.
        """
        return score(self.to_local(), X, y, sample_weight)


class DecisionMixin(ClassifierMixin):
    """A classifier on a cluster."""

    score = DistributedEstimator.score  # not that of the mixin
    to_local: Callable[[], BaseEstimator]

    @documented_by(PredictionsOnCluster)
    def decision_function(self, X: object) -> da.Array | np.ndarray:
        """Return the scores of samples.

        Returns
        -------
        dask array, or ndarray, of float64
            Shape (n_samples,) for two classes, positive for `classes_[1]`, else (n_samples, n_classes).
        """
        return decision_function(self.to_local(), X)


def made_from(local: type, without: Iterable[str]) -> Callable[[_Estimator], _Estimator]:
    """Give a class the parameters and documentation of a local estimator, without some, and those of the cluster."""

    def make(cls: _Estimator) -> _Estimator:
        made: Any = cls
        left_out = set(without)
        of_local = inspect.signature(local.__init__).parameters.values()  # type: ignore[misc]
        parameters = {one.name: one for one in of_local if one.name not in left_out} | _OF_CLUSTER
        made._local, made.__init__ = local, constructor(cls.__name__, list(parameters.values())[1:])
        if cls.__doc__ and local.__doc__:  # python -OO has none
            about, attributes = (described(local, part) | described(cls, part) for part in ("Parameters", "Attributes"))
            attributes = {name: text for name, text in attributes.items() if name not in left_out}
            text = documentation(cls, list(parameters)[1:], about, attributes)
            cls.__doc__ = text.replace("import SVC\n", f"import {cls.__name__}\n").replace(" SVC(", f" {cls.__name__}(")
        return cls

    return make
