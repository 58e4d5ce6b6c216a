"""Who fits samples by the hundred thousand, and how is each asked to? One entry of `MILLIONS_COMPETITORS` each.

A competitor is a name, budgets, and a function that fits from the file with a budget. What does not stream reads the
samples into memory first, within the clock. Nothing but the standard library is imported before a fit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.competitor import OURS, Competitor, Resources
from bench.millions.parameters import JUDGED, MillionsParameters

__all__ = ["MILLIONS_COMPETITORS", "MillionsCompetitor"]

_SUITE = ("millions",)
_ROWS_AT_ONCE, _EPOCHS = 10_000, 5
_COPIES = 3  # of the features are in memory at once, in float32


@dataclass(frozen=True)
class MillionsCompetitor(Competitor):
    """An implementation that fits from a file. `build` returns a function of path and budget that returns a model.

    Attributes
    ----------
    budget : str
        Field of the parameters that holds the budgets; "" for a single fit.
    budgets_within : callable
        `budgets_within(budgets, n_rows, memory_mb)` returns those budgets that it can take.
    """

    budget: str = ""
    budgets_within: Callable[[tuple[int, ...], int, int], tuple[int, ...]] = lambda budgets, n_rows, memory_mb: budgets

    def budgets_for(self, parameters: MillionsParameters, n_rows: int, memory_mb: int) -> tuple[int, ...]:
        """Return the budgets of the fits, in increasing order."""
        if not self.budget:
            return (0,)
        return self.budgets_within(tuple(getattr(parameters, self.budget)), n_rows, memory_mb)


def _rows(budgets: tuple[int, ...], n_rows: int, memory_mb: int) -> tuple[int, ...]:
    """Return the subsamples, the last of which are all samples if these are fewer."""
    return (*(one for one in budgets if one < n_rows), *([n_rows] if n_rows <= max(budgets) else []))


def _in_memory(budgets: tuple[int, ...], n_rows: int, memory_mb: int) -> tuple[int, ...]:
    """Return the numbers of features that fit in memory."""
    return tuple(one for one in budgets if _COPIES * 4 * one * n_rows <= memory_mb * 2**20)


def _nystroem(parameters: MillionsParameters, resources: Resources, **more: Any) -> Callable[[Path, int], Any]:
    from fastsvm import NystroemSVC, open_hdf5

    given = {"C": parameters.C, "gamma": parameters.gamma, "tol": parameters.tol, "memory": parameters.memory}

    def fit(path: Path, n_components: int) -> Any:
        with open_hdf5(path) as data:
            own = {"n_components": n_components, "bounds": data.shape[0] <= JUDGED}
            return NystroemSVC(**own | given | more, random_state=0).fit(data)

    return fit


def _support(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
    return _nystroem(parameters, resources, landmarks="support")


def _linear(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
    from fastsvm import LinearSVC, open_hdf5

    def fit(path: Path, budget: int) -> Any:
        model = LinearSVC(loss="hinge", standardize=True, tol=1e-2, memory=parameters.memory, random_state=0)
        with open_hdf5(path) as data:
            return model.fit(data)

    return fit


def _exact(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
    from fastsvm import SVC

    given = {"C": parameters.C, "gamma": parameters.gamma, "tol": parameters.tol, "memory": parameters.memory}
    return lambda path, n: SVC(**given).fit(*_read(path, n))


def _libsvm(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
    from sklearn.svm import SVC

    given = {"C": parameters.C, "gamma": parameters.gamma, "tol": parameters.tol, "cache_size": resources.memory_mb}
    return lambda path, n: SVC(**given).fit(*_read(path, n))


def _sklearn_nystroem(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    def fit(path: Path, m: int) -> Any:
        features = Nystroem(gamma=parameters.gamma, n_components=m, random_state=0)
        machine = LinearSVC(loss="hinge", C=parameters.C, tol=parameters.tol, max_iter=100_000, random_state=0)
        X, y = _read(path)
        return make_pipeline(features, machine).fit(_floats(X), y)

    return fit


def _sklearn_sgd(kind: str) -> Callable[[MillionsParameters, Resources], Callable[[Path, int], Any]]:
    """Return who computes features of some thousand samples at a time and learns them by gradient descent."""

    def build(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
        from sklearn import kernel_approximation
        from sklearn.linear_model import SGDClassifier
        from sklearn.pipeline import make_pipeline

        def fit(path: Path, m: int) -> Any:
            features = getattr(kernel_approximation, kind)(gamma=parameters.gamma, n_components=m, random_state=0)
            X, y = _read(path)
            features.fit(_floats(X[: 16 * m]))
            classes = sorted(set(y.tolist()))
            machine = SGDClassifier(
                alpha=1 / (parameters.C * len(y)), average=True, random_state=0, n_jobs=resources.threads
            )
            for _ in range(_EPOCHS):
                for some, labels in _parts(X, y):
                    machine.partial_fit(features.transform(_floats(some)), labels, classes=classes)
            return make_pipeline(features, machine)

        return fit

    return build


def _boosting(parameters: MillionsParameters, resources: Resources) -> Callable[[Path, int], Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    def fit(path: Path, n_iterations: int) -> Any:
        X, y = _read(path)
        return HistGradientBoostingClassifier(max_iter=n_iterations, random_state=0).fit(X, y)

    return fit


def _read(path: Path, n: int | None = None) -> tuple[Any, Any]:
    """Return the first n samples and labels. Samples are in random order in the file."""
    import h5py

    with h5py.File(path) as file:
        return file["X"][:n], file["y"][:n]


def _parts(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    for a in range(0, len(y), _ROWS_AT_ONCE):
        yield X[a : a + _ROWS_AT_ONCE], y[a : a + _ROWS_AT_ONCE]


def _floats(X: Any) -> Any:
    return X.astype("float32", copy=False)


MILLIONS_COMPETITORS = [
    MillionsCompetitor(OURS, "fastsvm", _SUITE, _nystroem, budget="landmarks"),
    MillionsCompetitor("fastsvm support", "fastsvm", _SUITE, _support, budget="landmarks"),
    MillionsCompetitor("fastsvm SVC", "fastsvm", _SUITE, _exact, budget="subsamples", budgets_within=_rows),
    MillionsCompetitor("fastsvm LinearSVC", "fastsvm", _SUITE, _linear),
    MillionsCompetitor("sklearn SVC", "sklearn", _SUITE, _libsvm, budget="subsamples", budgets_within=_rows),
    MillionsCompetitor(
        "sklearn Nystroem", "sklearn", _SUITE, _sklearn_nystroem, budget="landmarks", budgets_within=_in_memory
    ),
    MillionsCompetitor("sklearn Nystroem SGD", "sklearn", _SUITE, _sklearn_sgd("Nystroem"), budget="landmarks"),
    MillionsCompetitor("sklearn RBFSampler SGD", "sklearn", _SUITE, _sklearn_sgd("RBFSampler"), budget="landmarks"),
    MillionsCompetitor("sklearn boosting", "sklearn", _SUITE, _boosting, budget="trees"),
]
