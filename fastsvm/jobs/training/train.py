"""Train a model from a file, save it, and measure it; compare parameters by cross-validation, and choose the best."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import get_scorer, log_loss, r2_score
from sklearn.utils.multiclass import type_of_target

from fastsvm._compiled.compilations import stopwatch
from fastsvm._compiled.threads import at_most
from fastsvm.displays._samples import confusion_counts, names_of
from fastsvm.estimators.fitting.session import Checkpointer, checkpointed
from fastsvm.estimators.search.calibration import CalibratedClassifier
from fastsvm.files.atomic_file import FULL
from fastsvm.jobs.inputs import Json, check_labels, class_figures, labels_of, open_data, rows_named
from fastsvm.jobs.models import CERTIFICATE, fitting_model
from fastsvm.jobs.training.job_file import Job, estimators_of, learns_labels
from fastsvm.memory import peak_memory
from fastsvm.messages import say
from fastsvm.persistence.model_file import save
from fastsvm.sources import Data
from fastsvm.tuning import current_tuning

if TYPE_CHECKING:
    from distributed import Client


class Tested(NamedTuple):
    """The test samples of a model: their file, their row numbers in it, and their labels, true and predicted."""

    path: str
    rows: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    scores: dict[str, float] = {}  # noqa: RUF012, which is never changed; it has the score by which a search chose.

    def figures(self, model: BaseEstimator) -> Json:
        """Return R², or accuracies of all samples and of each class."""
        if not is_classifier(model):
            return {"r2": float(r2_score(self.truth, self.predicted))}
        labels = np.union1d(self.truth, self.predicted)
        with open_data(self.path) as data:
            found = class_figures(confusion_counts(self.truth, self.predicted, labels), names_of(labels, None, data))
        return found if len(labels) <= current_tuning().jobs.counted_classes else found | {"per_class": {}}


class Trained(NamedTuple):
    """A fitted model, its report, and its test samples, None if there are none."""

    model: BaseEstimator
    report: Json
    tested: Tested | None


def train(
    job: Job, destination: str | Path | None = None, checkpointer: Checkpointer | None = None, checkpoint: object = None
) -> Trained:
    """Train a model as a job says, whose files are in HDF5, save it if there is a destination, and measure it."""
    if not 0 <= job.holdout < 1:
        raise ValueError(f"holdout must be at least 0 and less than 1, found {job.holdout}.")
    if job.seed < 0:
        raise ValueError(f"seed must be at least 0, found {job.seed}.")
    if not learns_labels(job.kind) and (job.holdout or job.test):
        raise ValueError(f"A model of kind {job.kind!r} learns no labels to test. Leave out test and holdout.")
    with open_data(job.train) as data, at_most(job.threads):
        labels = labels_of(data) if learns_labels(job.kind) else np.zeros(len(data))
        estimator = estimator_of(job, labels)
        training, _ = split(len(data), job.holdout, job.seed)
        if job.test is not None:
            _check_test(job.test, data, np.unique(labels) if is_classifier(estimator) else None)
        if job.probability is not None:
            estimator = CalibratedClassifier(estimator, method=job.probability, cv=job.folds)
        spent = stopwatch()
        with _connected(job.cluster) as client, checkpointed(estimator, checkpointer, checkpoint):
            if client is None:
                _fit(estimator, data, labels, training)
            else:
                estimator.client = client
                estimator.fit(data.path)
        seconds, workers = spent(), None
        if job.cluster is None:
            n_read, reading = data.X.reads.nbytes, data.X.reads.seconds
        else:
            workers, estimator = estimator.workers_, estimator.to_local()
            n_read = data.X.nbytes * sum(one["rows"] for one in workers.values()) / max(1, len(data))
            reading = sum(one["reading"] for one in workers.values())
            estimator._origin = data.X.origin
        cost = {
            **seconds,
            "passes": n_read / max(1, data.X.nbytes),
            "read_mb_per_second": n_read / 1e6 / max(reading, 1e-9),
            "workers": workers,
        }
        # The command shows progress, not the model.
        getattr(estimator, "estimator_", estimator).set_params(verbose=job.parameters.get("verbose", False))
        if destination is not None:
            save_surely(estimator, destination)
        tested = measured(estimator, job)
        return Trained(estimator, _report(estimator, tested, destination, len(training), cost), tested)


@contextmanager
def _connected(cluster: Json | None) -> Iterator["Client | None"]:
    """Give a client of the cluster of a job, None without a cluster; a local cluster is started and ended."""
    if cluster is None:
        yield None
        return
    from distributed import Client, LocalCluster

    with ExitStack() as ended:
        started = cluster.get("scheduler")
        if started is None:
            workers, threads = cluster["local"]["workers"], cluster["local"]["threads"]
            local = LocalCluster(workers, threads_per_worker=threads, dashboard_address=":0")
            started = ended.enter_context(local)
        yield ended.enter_context(Client(started, set_as_default=False))


def measured(model: BaseEstimator, job: Job) -> Tested | None:
    """Return the test samples of a job with the predictions of a model, None if the job has no test samples."""
    if not job.holdout and job.test is None:
        return None
    with open_data(job.test or job.train) as data, at_most(job.threads):
        rows = np.arange(len(data)) if job.test else split(len(data), job.holdout, job.seed)[1]
        if len(rows) == 0:
            return None
        fitting = fitting_model(model, "", data.X) if job.test else model
        with rows_named(data.path, rows):
            X = data.X if len(rows) == len(data) else data.X.take(rows)
            truth, predicted = labels_of(data)[rows], fitting.predict(X)
            scores = {}
            try:
                if job.probability is not None:
                    scores = probability_scores(truth, fitting.predict_proba(X), fitting.classes_)
                if job.scoring is not None:
                    scores[job.scoring] = float(get_scorer(job.scoring)(fitting, X, truth))
            except (AttributeError, ValueError) as error:  # such as one class only in the labels
                say(f"note: {job.scoring or 'log_loss'} of the {len(rows):,} test samples cannot be computed: {error}")
        return Tested(job.test or job.train, rows, truth, predicted, scores)


def estimator_of(job: Job, y: np.ndarray) -> BaseEstimator:
    """Return the unfitted estimator of a job whose labels are y."""
    kind = estimators_of(job.cluster)[job.kind]
    if is_classifier(kind()) and type_of_target(y).startswith("continuous"):
        raise ValueError(
            f"The labels are real numbers, such as {y[0]:g}, and a model of kind {job.kind!r} predicts classes. Name a "
            "regressor, by --model svr or kind = 'svr' in a job, or the column with the classes, by label=."
        )
    of_job = {
        "random_state": job.seed,
        "memory": job.memory,
        "max_time": job.seconds,
        "verbose": True,
        "n_shards": job.cluster and job.cluster["shards"],
    }
    names = signature(kind).parameters
    of_job = {name: value for name, value in of_job.items() if name in names and value is not None}
    return kind(**of_job | with_labels(dict(job.parameters), y))


def _check_test(path: str, training: Data, classes: np.ndarray | None) -> None:
    """Raise ValueError if a file cannot be a test, before the time of a fit is spent."""
    with open_data(path) as data:
        if data.y is None:
            raise ValueError(f"{path} has no labels; a test needs them. They are the dataset y of HDF5 files.")
        is_text = data.X.origin.first_index is not None  # which does not say how many features there are
        if data.shape[1] != training.shape[1] and not (is_text and data.X.sparse):
            raise ValueError(f"{path} has {data.shape[1]} features, the training data have {training.shape[1]}.")
        note = check_labels(classes, data, path)
        if note:
            say(f"note: {note}")


def _report(model: BaseEstimator, tested: Tested | None, path: str | Path | None, n: int, cost: Json) -> Json:
    """Return the result of `train`; `cost` are times, passes over the file, and speeds in 10⁶ bytes."""
    fit = getattr(model, "estimator_", model)
    fitted = vars(fit)
    classes, support = fitted.get("classes_"), fitted.get("support_")
    figures: Json = {"accuracy": None, "balanced_accuracy": None, "per_class": {}, "r2": None, "scores": {}}
    if tested is not None:
        figures |= {"scores": tested.scores} | tested.figures(model)
    return {
        "model": str(path or ""),
        "n_samples": n,  # without those that are held out
        "n_features": model.n_features_in_,
        "n_classes": None if classes is None else len(classes),
        **figures,
        "n_test": 0 if tested is None else len(tested.rows),
        **{name: fitted.get(f"{name}_") for name in CERTIFICATE},
        "n_support": None if support is None else len(support),
        "n_iter": int(np.sum(fit.n_iter_)),  # of all two-class problems together
        **cost,
        "peak_memory_mb": peak_memory(),  # of the process so far
    }


def probability_scores(truth: np.ndarray, probabilities: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Return Brier score and log loss of the probabilities of some classes."""
    squares = np.square(probabilities - (truth[:, None] == classes)).sum(axis=1)
    brier = float(squares.mean()) / (2 if len(classes) == 2 else 1)  # of two classes, that of the second alone
    return {"brier_score": brier, "log_loss": float(log_loss(truth, probabilities, labels=classes))}


def split(n: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of the training samples and of the held-out samples, each in ascending order."""
    order = np.random.default_rng(seed).permutation(n)
    n_held = round(n * holdout)
    if n_held == n > 0:
        raise ValueError(f"holdout={holdout:g} of {n:,} rows leaves no training rows. Hold out a smaller share.")
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def _fit(model: BaseEstimator, data: Data, y: np.ndarray, rows: np.ndarray) -> None:
    with rows_named(data.path, rows):
        if len(rows) == len(data):
            model.fit(data)
        else:
            weight = None if data.sample_weight is None else data.sample_weight[rows]
            model.fit(data.X.take(rows), y[rows], sample_weight=weight)


def with_labels(parameters: Json, y: np.ndarray) -> Json:
    """Return the parameters with the keys of `class_weight`, which are text, replaced by the labels they stand for."""
    weights = parameters.get("class_weight")
    if not isinstance(weights, dict):
        return parameters
    labels = {_written(label): label for label in np.unique(y).tolist()}
    return parameters | {"class_weight": {labels.get(_written(key), key): value for key, value in weights.items()}}


def _written(label: float | str) -> str:
    """Return a label as text, the same for 1, 1.0 and "1"."""
    try:
        return repr(float(label))
    except ValueError:
        return str(label)


# --- results on a disk that may be full ----------------------------------------------------------------------------


def written_surely(write: Callable[[], None], path: str | Path) -> None:
    """Call `write`, and again for a while if the disk is full; `path` is for the message."""
    tuning = current_tuning().jobs
    end, said = time.monotonic() + tuning.full_disk_s, False
    while True:
        try:
            write()
            return
        except OSError as error:
            if error.errno not in FULL or time.monotonic() >= end:
                raise
            if not said:
                wait = f"fastsvm tries again for {tuning.full_disk_s:.0f} s"
                say(f"cannot write {path}: {error.strerror}. Make room: {wait}.")
                said = True
        time.sleep(tuning.wait_s)


def save_surely(model: BaseEstimator, path: str | Path) -> None:
    """Save a model; if its disk is full, save it to a temporary file, which the message of the OSError names."""
    try:
        written_surely(lambda: save(model, path), path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}{_rescued(model)}", str(path)) from error


def _rescued(model: BaseEstimator) -> str:
    """Save a model to a temporary file; return the end of the error message."""
    try:
        number, path = tempfile.mkstemp(prefix="fastsvm-model-", suffix=".fastsvm")
        os.close(number)
        try:
            save(model, path)
        except BaseException:
            os.unlink(path)
            raise
    except OSError:
        return "; the folder of temporary files has no room either"
    return f"; the fitted model is not lost: it was saved to {path}"
