"""What is fitted? A draw is a record; number i of a seed is always the same.

Sizes are log-uniform, so that small fits are as frequent as large ones. A draw of which scikit-learn would take longer
than a limit, by a rough estimate, gets fewer samples, and fewer features if that does not suffice.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

__all__ = ["KERNEL_MACHINES", "OF_TARGETS", "ONE_CLASS", "Draw", "drawn"]

KERNEL_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
OF_TARGETS = ("SVR", "NuSVR", "LinearSVR", "SGDRegressor")
ONE_CLASS = ("OneClassSVM", "LinearOneClassSVM")

_SHARES = {
    "SVC": 0.18, "NuSVC": 0.05, "SVR": 0.09, "NuSVR": 0.04, "OneClassSVM": 0.05, "LinearSVC": 0.15, "LinearSVR": 0.08,
    "LogisticRegression": 0.12, "SGDClassifier": 0.11, "SGDRegressor": 0.05, "LinearOneClassSVM": 0.03,
    "NystroemSVC": 0.03, "SVCSearch": 0.02,
}  # fmt: skip
_FEWEST = 20
_MOST_SAMPLES, _MOST_SAMPLES_OF_KERNELS = 200_000, 20_000
_MOST_FEATURES, _MOST_SPARSE_FEATURES = 3_000, 100_000
_MOST_CLASSES = 1_000
_MOST_VALUES = 2e7  # that are not zero: 160 MB of float64
_QUICK_SAMPLES, _QUICK_FEATURES, _QUICK_CLASSES = 2_000, 200, 30
_SPARED = 0.75  # share of draws with a linear kernel and features of any size that are standardised instead
_SECONDS, _QUICK_SECONDS = 5.0, 0.03  # of a call of scikit-learn, by the estimate


@dataclass(frozen=True)
class Draw:
    """A fit or a prediction that both libraries are asked for.

    Attributes
    ----------
    seed, number, quick : int, int, bool
        What it is drawn from.
    estimator : str
        Name in fastsvm; `bench.sweep.estimators` knows scikit-learn's counterpart.
    task : {"fit", "predict", "decision_function", "partial_fit", "search"}
        What is timed.
    rows : int
        Samples that are predicted in one call, 0 if none are.
    n, d : int
        Samples and features.
    density : float
        Share of the values that are not zero. Below 1, samples are sparse.
    classes : int
        Number of classes, 0 for real targets or one class.
    skewed : bool
        Whether some classes have many more samples than others.
    data : {"blobs", "linear", "words", "integers"}
        How samples are made up.
    scaling : {"standardised", "none", "units", "huge"}
        "units" differ by factors of up to 100,000, and one column of "huge" is 3e7 ± 1e6.
    storage : {"float64", "float32", "csr", "hdf5"}
        What fastsvm is given. For scikit-learn, h5py reads a file into an array or a CSR matrix, which is timed.
    given : dict
        Parameters of both. A number `gamma` is a factor of what "scale" is.
    peer : str
        Solver of scikit-learn's logistic regression.
    """

    seed: int
    number: int
    quick: bool
    estimator: str
    task: str = "fit"
    rows: int = 0
    n: int = _FEWEST
    d: int = 1
    density: float = 1.0
    classes: int = 0
    skewed: bool = False
    data: str = "blobs"
    scaling: str = "none"
    storage: str = "float64"
    given: dict[str, Any] = field(default_factory=dict)
    peer: str = ""

    @property
    def width(self) -> float:
        """Values of a sample that are not zero."""
        return max(1.0, self.d * self.density)

    def line(self) -> str:
        """Return all of it in words."""
        task = f"{self.task} {self.rows}" if self.rows else self.task
        kind = f"{self.classes} {'skewed ' if self.skewed else ''}classes" if self.classes else "no classes"
        share = f" ({self.density:.2g} not zero)" if self.density < 1 else ""
        values = (f"{name}={value}{' x scale' * _is_factor(name, value)}" for name, value in self.given.items())
        words = (
            f"#{self.number}{' quick' if self.quick else ''} {self.estimator} {task}",
            f"{self.n:,} x {self.d:,}{share}",
            f"{self.storage} {self.scaling} {self.data}",
            kind,
            " ".join(values),
            self.peer,
        )
        return ", ".join(word for word in words if word)


def _is_factor(name: str, value: Any) -> bool:
    return name == "gamma" and value != "scale"


def drawn(seed: int, number: int, quick: bool = False) -> Draw:
    """Return a draw by its number."""
    rng = np.random.default_rng([seed, number])
    name = str(rng.choice(list(_SHARES), p=list(_SHARES.values())))
    most = _QUICK_SAMPLES if quick else _most_samples(name)
    n = _log_uniform(rng, _FEWEST, most)
    draw = Draw(seed, number, quick, name, n=n, **_of_samples(rng, quick))
    draw = replace(draw, **_of_classes(rng, draw), given=_parameters(rng, draw))
    draw = replace(draw, **_task(rng, name), peer=_peer(rng, draw))
    if draw.given.get("kernel") == "linear" and draw.scaling in ("units", "huge") and rng.random() < _SPARED:
        draw = replace(draw, scaling="standardised")  # LIBSVM would often take hours
    if draw.storage == "hdf5" and draw.task in ("partial_fit", "search"):  # which take rows out
        draw = replace(draw, storage="csr" if draw.density < 1 else "float64")
    return _bounded(draw, _QUICK_SECONDS if quick else _SECONDS)


def _most_samples(name: str) -> int:
    return _MOST_SAMPLES_OF_KERNELS if name in (*KERNEL_MACHINES, "SVCSearch") else _MOST_SAMPLES


def _log_uniform(rng: np.random.Generator, least: float, most: float) -> int:
    return int(np.exp(rng.uniform(np.log(least), np.log(most + 1))))


def _power(rng: np.random.Generator, least: float, most: float) -> float:
    """Return a power of ten with two digits, which are read and typed easily."""
    return float(f"{10 ** rng.uniform(least, most):.1e}")


def _of_samples(rng: np.random.Generator, quick: bool) -> dict[str, Any]:
    """Return how samples are made up, scaled and stored."""
    if rng.random() < 0.25:
        d = _log_uniform(rng, 100, _QUICK_FEATURES if quick else _MOST_SPARSE_FEATURES)
        density = max(_power(rng, -3, -0.7), min(1.0, 3 / d))
        data = str(rng.choice(["words", "blobs", "integers"], p=[0.6, 0.2, 0.2]))
        scaling = str(rng.choice(["standardised", "none", "units"], p=[0.5, 0.35, 0.15]))
        storage = str(rng.choice(["csr", "hdf5"], p=[0.85, 0.15]))
        return {"d": d, "density": density, "data": data, "scaling": scaling, "storage": storage}
    return {
        "d": _log_uniform(rng, 1, _QUICK_FEATURES if quick else _MOST_FEATURES),
        "data": str(rng.choice(["blobs", "linear", "integers"], p=[0.45, 0.35, 0.2])),
        "scaling": str(rng.choice(["standardised", "none", "units", "huge"], p=[0.45, 0.25, 0.2, 0.1])),
        "storage": str(rng.choice(["float64", "float32", "hdf5"], p=[0.6, 0.25, 0.15])),
    }


def _of_classes(rng: np.random.Generator, draw: Draw) -> dict[str, Any]:
    """Return the number of classes and whether they are skewed. Half of the draws have two."""
    many, skewed = rng.random() < 0.5, bool(rng.random() < 0.3)
    found = _log_uniform(rng, 3, _QUICK_CLASSES if draw.quick else _MOST_CLASSES)
    if draw.estimator in (*OF_TARGETS, *ONE_CLASS):
        return {"classes": 0}
    found = found if many and draw.data != "linear" else 2
    # A search needs samples of each class in each fold, and the loss of a nu beyond what classes allow is none.
    return {"classes": _fewer(found, draw), "skewed": skewed and draw.estimator not in ("NuSVC", "SVCSearch")}


def _fewer(classes: int, draw: Draw) -> int:
    """Return at most as many classes as samples allow."""
    return min(
        classes, 10 if draw.estimator == "SVCSearch" else classes, max(2, draw.n // 6 if draw.skewed else draw.n // 3)
    )


def _parameters(rng: np.random.Generator, draw: Draw) -> dict[str, Any]:
    """Return parameters that both libraries understand, with the same meaning."""
    name, no_intercept = draw.estimator, bool(rng.random() < 0.5)
    C, of_linear, nu = _power(rng, -2, 3), _power(rng, -3, 2), float(f"{rng.uniform(0.05, 0.6):.2f}")
    epsilon = float(rng.choice([0.1, 0.01, 0.5]))
    kernel = {"kernel": str(rng.choice(["rbf", "linear", "poly"], p=[0.7, 0.15, 0.15]))}
    if kernel["kernel"] != "linear":
        kernel["gamma"] = "scale" if rng.random() < 0.6 else _power(rng, -1, 1)
    if kernel["kernel"] == "poly":
        kernel |= {"degree": int(rng.integers(2, 4)), "coef0": float(rng.integers(0, 2))}
    of_kernels = {
        "SVC": {"C": C}, "NuSVC": {"nu": nu}, "SVR": {"C": C, "epsilon": epsilon}, "NuSVR": {"C": C, "nu": nu},
        "OneClassSVM": {"nu": nu}, "SVCSearch": {}, "NystroemSVC": {"C": of_linear},
    }  # fmt: skip
    if name == "NystroemSVC":
        components, loss = _log_uniform(rng, 20, 500), str(rng.choice(["hinge", "squared_hinge"]))
        return {"C": C, "kernel": "rbf", "gamma": _power(rng, -1, 1), "n_components": components, "loss": loss}
    if name in of_kernels:
        return of_kernels[name] | kernel
    if name == "LinearOneClassSVM":
        return {"nu": nu}
    given: dict[str, Any] = {"fit_intercept": False} if no_intercept else {}
    if name.startswith("SGD"):
        losses = ["squared_error", "huber", "epsilon_insensitive"] if name in OF_TARGETS else _LOSSES_OF_CLASSES
        penalty = str(rng.choice(["l2", "l1", "elasticnet"], p=[0.7, 0.15, 0.15]))
        return given | {"loss": str(rng.choice(losses)), "penalty": penalty, "alpha": _power(rng, -6, -2)}
    given["C"] = of_linear
    if name == "LinearSVR":
        loss = str(rng.choice(["epsilon_insensitive", "squared_epsilon_insensitive"], p=[0.7, 0.3]))
        return given | {"loss": loss, "epsilon": float(rng.choice([0.0, 0.1]))}
    penalty = "l1" if rng.random() < 0.2 else "l2"
    if name == "LinearSVC":
        loss = "squared_hinge" if penalty == "l1" or rng.random() < 0.6 else "hinge"
        return given | {"penalty": penalty, "loss": loss}
    return given | {"penalty": penalty}


_LOSSES_OF_CLASSES = ["hinge", "log_loss", "squared_hinge", "modified_huber"]


def _task(rng: np.random.Generator, name: str) -> dict[str, Any]:
    """Return what is timed."""
    task = str(rng.choice(["fit", "predict", "decision_function"], p=[0.65, 0.23, 0.12]))
    rows, is_partial = int(rng.choice([1, 10, 1000])), bool(rng.random() < 0.3)
    if name == "SVCSearch":
        return {"task": "search"}
    if name.startswith("SGD") and is_partial:
        return {"task": "partial_fit"}
    if task == "decision_function" and name in OF_TARGETS:
        task = "predict"  # they have no other
    return {"task": task, "rows": 0 if task == "fit" else rows}


def _peer(rng: np.random.Generator, draw: Draw) -> str:
    """Return the solver of scikit-learn's logistic regression: its default, or LIBLINEAR, whose objective ours has."""
    default = rng.random() < 0.7
    if draw.estimator != "LogisticRegression":
        return ""
    return "lbfgs" if default and draw.given["penalty"] == "l2" else "liblinear"


def _bounded(draw: Draw, most_s: float) -> Draw:
    """Return the draw with so few samples and features that scikit-learn takes at most so many seconds."""
    while estimated_seconds(draw) > most_s or draw.n * draw.width > _MOST_VALUES:
        if draw.n > 2 * _FEWEST:
            draw = replace(draw, n=int(0.8 * draw.n))
            draw = replace(draw, classes=_fewer(draw.classes, draw) if draw.classes else 0)
        elif draw.d > 1:
            draw = replace(draw, d=int(0.8 * draw.d))
        else:
            break
    if "n_components" in draw.given:
        draw = replace(draw, given=draw.given | {"n_components": min(draw.given["n_components"], draw.n)})
    return draw


def estimated_seconds(draw: Draw) -> float:
    """Return about how long a call of scikit-learn takes, with the fit before it."""
    if draw.estimator in (*KERNEL_MACHINES, "SVCSearch"):
        return _seconds_of_libsvm(draw)
    each = draw.n * max(1, draw.classes if draw.classes > 2 else 1)
    if draw.estimator == "NystroemSVC":
        m = draw.given["n_components"]
        return draw.n * m * (1e-9 * draw.width + 2e-8) + 2e-9 * each * m * _epochs(draw) + 1e-8 * m**3
    if draw.estimator.startswith("SGD") or draw.estimator == "LinearOneClassSVM":
        epochs = 1 if draw.task == "partial_fit" else 30 if draw.scaling == "standardised" else 200
        return epochs * each * (3e-9 * draw.width + 6e-8)
    return each * (5e-9 * draw.width + 5e-9) * _epochs(draw)


def _epochs(draw: Draw) -> float:
    """Return about how many passes LIBLINEAR or L-BFGS makes."""
    if draw.peer == "lbfgs":
        return 150
    hard = {"standardised": 1, "none": 3}.get(draw.scaling, 10)
    smooth = draw.given.get("loss") == "squared_hinge" and draw.given.get("penalty") == "l2" and draw.n >= draw.d
    return 150 * hard if smooth else min(1000, 100 * hard * max(1.0, draw.given["C"]))


def _seconds_of_libsvm(draw: Draw) -> float:
    """Return about how long LIBSVM takes: rows of the kernel, and steps that each read two of them."""
    given = draw.given
    hard = 1 + 1.5 * np.log10(max(1.0, given.get("C", 10.0)))
    if given["kernel"] != "rbf":
        hard *= 3 + given.get("C", 10.0) * (1 if draw.scaling in ("standardised", "none") else 30)
    k = max(2, draw.classes)
    n_pairs, size = k * (k - 1) / 2, draw.n * (2 if draw.estimator in ("SVR", "NuSVR") else 2 / k)
    again = 1 if size < 5_000 else min(3.0, hard)  # rows that its cache of 200 MB does not keep
    seconds = n_pairs * (size**2 * again * (1.2e-9 * draw.width + 1.5e-8) + hard * size**2 * 5e-9 + 2e-5)
    seconds += draw.n * (draw.rows or 1) * (1.2e-9 * draw.width + 1.5e-8) + draw.rows * n_pairs * 1e-6
    return seconds * (15 if draw.estimator == "SVCSearch" else 1)
