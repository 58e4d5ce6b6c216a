"""Small data sets: those that come with scikit-learn, and made-up ones of a few hundred samples."""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.datasets import load_wine, make_classification, make_hastie_10_2, make_moons

from bench import recipes
from bench.harness.data import Data, standardised
from bench.harness.suite import Case
from bench.kernel.competitors import KernelParameters

__all__ = ["SMALL_CASES"]

_SMALL = ("small",)


def wine() -> Data:
    return standardised(_split(*load_wine(return_X_y=True)))


def clusters(n_classes: int, each: int, n_features: int) -> Data:
    """Return classes of equal size around centres that are some standard deviations apart."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), each)
    centres = 4 / np.sqrt(n_features) * rng.normal(size=(n_classes, n_features))
    return _split(rng.normal(size=(len(y), n_features)) + centres[y], y)


def noisy(n: int) -> Data:
    """Return twenty features, five of which tell two classes apart, with wrong labels."""
    X, y = make_classification(n, 20, n_informative=5, flip_y=0.1, random_state=0)
    return standardised(_split(X, y))


def moons() -> Data:
    return _split(*make_moons(1250, noise=0.3, random_state=0))


def hastie() -> Data:
    return _split(*make_hastie_10_2(2500, random_state=0))


def sparse_rows() -> Data:
    """Return 80 features, of which a sample has twelve."""
    X = sparse.random(1250, 80, 0.15, format="csr", random_state=1)
    y = (np.asarray(X[:, :20].sum(axis=1)).ravel() > 1.4).astype(np.int64)
    return Data(X[:1000], y[:1000], X[1000:], y[1000:])


def _split(X: np.ndarray, y: np.ndarray) -> Data:
    order, cut = np.random.default_rng(0).permutation(len(y)), len(y) * 4 // 5
    first, rest = order[:cut], order[cut:]
    return Data(X[first], y[first].astype(np.int64), X[rest], y[rest].astype(np.int64))


def _case(name: str, recipe, *, quick: bool = False, **parameters) -> Case:
    return Case(name, _SMALL, recipe, KernelParameters(**parameters), quick=quick)


SMALL_CASES = [
    _case("iris-rbf", recipes.iris, quick=True, gamma=0.1),
    _case("iris-linear", recipes.iris, kernel="linear"),
    _case("iris-poly", recipes.iris, kernel="poly", gamma=0.1),
    _case("wine-rbf", wine, gamma=1 / 13),
    _case("cancer-rbf", recipes.breast_cancer, gamma=0.03),
    _case("cancer-linear", recipes.breast_cancer, kernel="linear"),
    _case("digits-rbf", recipes.digits, gamma=0.1),
    _case("digits-poly", recipes.digits, kernel="poly", gamma=0.1, coef0=1.0),
    _case("3-classes-of-100", partial(clusters, 3, 125, 5), gamma=0.2),
    _case("7-classes-of-200", partial(clusters, 7, 250, 8), gamma=0.1),
    _case("7-classes-of-200-C100", partial(clusters, 7, 250, 8), gamma=0.1, C=100),
    _case("20-classes-of-100", partial(clusters, 20, 125, 30), gamma=1 / 30),
    _case("60-classes-of-100", partial(clusters, 60, 125, 20), gamma=1 / 20),
    *[_case(f"noisy-{n}", partial(noisy, n * 5 // 4), gamma=0.05) for n in (100, 300, 1000, 2000)],
    _case("noisy-2000-C100", partial(noisy, 2500), gamma=0.05, C=100),
    _case("noisy-2000-linear", partial(noisy, 2500), kernel="linear"),
    _case("moons-1000", moons, gamma=1.0),
    _case("moons-1000-C100", moons, gamma=1.0, C=100),
    _case("hastie-2000", hastie, gamma=0.1),
    _case("sparse-1000", sparse_rows, gamma=0.5),
]
