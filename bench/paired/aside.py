"""Cases that no suite has: other sizes, other C, unscaled features, many classes. Nothing was tuned on them."""

from functools import partial

import numpy as np
from scipy import sparse
from sklearn.datasets import load_diabetes, load_wine, make_classification, make_regression

from bench import made_up_tables, recipes
from bench.harness.data import Data, standardised
from bench.harness.suite import Case
from bench.kernel.competitors import KernelParameters
from bench.linear.parameters import LinearParameters
from bench.machines.parameters import MachineParameters

__all__ = ["ASIDE"]


def _split(X, y, seed: int = 1) -> Data:
    order, cut = np.random.default_rng(seed).permutation(len(y)), len(y) * 4 // 5
    return Data(X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]])


def wine() -> Data:
    """Return thirteen features of scales from .1 to 1,000, as they are."""
    return _split(*load_wine(return_X_y=True))


def diabetes() -> Data:
    """Return ten features as they were measured, with a class for the worse half."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return _split(X, (y > np.median(y)).astype(np.int64))


def many_scales() -> Data:
    """Return eight features with scales of .01 to 1,000, and means of 1 to 1,000."""
    rng = np.random.default_rng(450)
    Z = rng.normal(size=(450, 8))
    y = (Z[:, 0] + Z[:, 5] * Z[:, 3] + 0.5 * rng.normal(size=450) > 0).astype(np.int64)
    return _split(Z * 10.0 ** np.linspace(-2, 3, 8) + 10.0 ** np.linspace(0, 3, 8), y)


def many_classes() -> Data:
    """Return forty classes of sixty samples."""
    X, y = make_classification(
        3000, 12, n_informative=10, n_redundant=0, n_classes=40, n_clusters_per_class=1, class_sep=2, random_state=5
    )
    return standardised(_split(X, y))


def unscaled(n: int = 7000) -> Data:
    """Return six features, one in thousands and one in thousandths."""
    rng = np.random.default_rng(11)
    X = rng.gamma(2.0, size=(n, 6))
    y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 4 + 0.3 * rng.normal(size=n) > 1).astype(np.int64)
    return _split(X * [1, 3, 1e3, 20, 1e-3, 1], y)


def long_rows() -> Data:
    """Return three hundred features in float32, a few of which decide."""
    X, y = make_classification(9000, 300, n_informative=20, n_clusters_per_class=4, flip_y=0.02, random_state=6)
    data = standardised(_split(X, y))
    return data._replace(X=data.X.astype(np.float32), X_test=data.X_test.astype(np.float32))


def many_words() -> Data:
    """Return few sparse rows of 20,000 features, all of which count."""
    rng = np.random.default_rng(13)
    X = sparse.random(4000, 20_000, 0.003, format="csr", random_state=rng)
    return _split(X, (X @ rng.normal(size=20_000) + 0.1 * rng.normal(size=4000) > 0).astype(np.int64))


def rare_words() -> Data:
    """Return sparse rows of 5,000 features, and a score of a hundred of them."""
    rng = np.random.default_rng(12)
    X = sparse.random(30_000, 5000, 0.004, format="csr", random_state=rng, data_rvs=lambda n: rng.exponential(size=n))
    score = np.asarray(X[:, :100].sum(axis=1)).ravel()
    return _split(X, (score + 0.3 * rng.normal(size=len(score)) > np.median(score)).astype(np.int64))


def plane() -> Data:
    X, y = make_classification(25_000, 40, n_informative=15, flip_y=0.1, random_state=7)
    return standardised(_split(X, y))


def plane_sorted() -> Data:
    """Return the samples of `plane`, one class after the other, as files often have them."""
    data = plane()
    order = np.argsort(data.y, kind="stable")
    return data._replace(X=data.X[order], y=data.y[order])


def slope() -> Data:
    X, y = make_regression(6000, 25, n_informative=10, noise=20.0, random_state=8)
    return standardised(_split(X, (y - y.mean()) / y.std()))


def few_of_many() -> Data:
    X, y = make_classification(400, 3000, n_informative=30, random_state=9)
    return standardised(_split(X, y))


def _case(name: str, recipe, parameters, avx2: bool = False) -> Case:
    return Case(name, ("aside",), recipe, parameters, avx2=avx2)


ASIDE = {
    "kernel": [
        _case("wine as it is, C=100", wine, KernelParameters(C=100, gamma=1e-5)),
        _case("diabetes as it is, cubic", diabetes, KernelParameters(1.0, 1 / 10, "poly", 3, 1.0)),
        _case("scales of .01 to 1,000, C=100", many_scales, KernelParameters(100.0, 1.0, "linear")),
        _case("40 classes", many_classes, KernelParameters(C=3, gamma=0.1)),
        _case("unscaled 5,600, C=100", unscaled, KernelParameters(C=100, gamma=1e-6)),
        _case("300 features 7,200, C=5", long_rows, KernelParameters(C=5, gamma=1 / 600)),
        _case("300 features 7,200, AVX2", long_rows, KernelParameters(C=5, gamma=1 / 600), avx2=True),
        _case("covtype 5,000, C=30", recipes.covtype5000, KernelParameters(C=30, gamma=1.0)),
        _case("mixture 2,800, C=.03", partial(made_up_tables.mixture, 3500), KernelParameters(C=0.03, gamma=0.1)),
        _case("mixture 6,400, C=300", partial(made_up_tables.mixture, 8000), KernelParameters(C=300, gamma=0.1)),
        _case("board 3,200, C=1000", partial(made_up_tables.board, 4000), KernelParameters(C=1000, gamma=8)),
        _case("board 2,800, C=300", partial(made_up_tables.board, 3500), KernelParameters(C=300, gamma=3)),
        _case("centres 2,400, C=100", partial(made_up_tables.centres, 3000, 10), KernelParameters(C=100, gamma=0.1)),
    ],
    "machines": [
        _case("SVR slope, C=20", slope, MachineParameters("svr", 1 / 25, C=20)),
        _case("NuSVR slope, nu=.3", slope, MachineParameters("nu-svr", 1 / 25, nu=0.3)),
    ],
    "linear": [
        _case("plane, hinge, C=30", plane, LinearParameters("hinge", C=30)),
        _case("plane, squared, C=.1", plane, LinearParameters("squared_hinge", C=0.1)),
        _case("words, hinge, C=.5", rare_words, LinearParameters("hinge", C=0.5)),
        _case("words, logistic, C=5", rare_words, LinearParameters("log_loss", C=5)),
        _case("few of many, hinge", few_of_many, LinearParameters("hinge", C=0.01)),
        _case("slope, absolute", slope, LinearParameters("absolute_error", C=1)),
        _case("words, squared, L1", rare_words, LinearParameters("squared_hinge", C=0.3, penalty="l1")),
        _case("many words, squared, L1", many_words, LinearParameters("squared_hinge", C=1, penalty="l1")),
        _case("300 features, logistic, L1", long_rows, LinearParameters("log_loss", C=0.1, penalty="l1")),
    ],
    "landmarks": [
        _case("landmarks 40 features 20,000", plane, KernelParameters(C=3, gamma=1 / 40)),
        _case("landmarks 40 features, sorted", plane_sorted, KernelParameters(C=3, gamma=1 / 40)),
        _case("landmarks mixture 2,800", partial(made_up_tables.mixture, 3500), KernelParameters(C=10, gamma=0.1)),
    ],
}
"""Cases by the suite whose estimators they fit."""
