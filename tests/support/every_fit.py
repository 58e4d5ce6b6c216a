"""Small fits of every estimator in its main variants. As a program, it prints a digest of each fitted model.

The first argument says how many variants to fit, "some" or "all", the second their order, "forth" or "back".
"""

import hashlib
import sys
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC, LinearSVC, LinearSVR, SGDClassifier, SGDRegressor, SVCSearch
from fastsvm.kernels import KERNELS
from fastsvm.losses import LOSSES, loss_names

REGRESSION = loss_names("numbers")
_RNG = np.random.default_rng(0)
_WHOLE = _RNG.integers(0, 256, (240, 37)).astype(np.uint8)
LABELS = (_WHOLE[:, :3].astype(int) @ [1, 2, 3] + _RNG.integers(0, 200, 240)) // 300
TARGETS = _WHOLE[:, 0] / 100.0 + _RNG.normal(size=240)
ROWS = {
    "float64": _WHOLE / 128.0 - 1,
    "float32": (_WHOLE / 128.0 - 1).astype(np.float32),
    "uint8": _WHOLE,
    "csr": sparse.csr_matrix(np.where(_WHOLE > 128, _WHOLE / 128.0 - 1, 0)),
}


def cases(every):
    """Yield the name of each fit, its estimator, and whether it is a regression."""
    for kernel in KERNELS if every else ():
        yield f"SVC {kernel}", SVC(kernel=kernel, max_iter=2000), False
    for solver, loss in (("coordinate", "hinge"), ("primal", "squared_hinge")):
        if every:
            yield f"SVC {solver} {loss}", SVC(solver=solver, loss=loss, max_iter=300), False
            yield f"SVC {solver} {loss} rate", SVC(solver=solver, loss=loss, max_iter=30, learning_rate=0.01), False
    if every:
        yield "SVC random", SVC(solver="coordinate", selection="random", random_state=0, max_iter=3000), False
    common = {"max_iter": 20, "random_state": 0}
    for coupled in ("crammer_singer", "weston_watkins") if every else ("crammer_singer",):
        yield f"LinearSVC {coupled}", LinearSVC(multi_class=coupled, **common), False
    for loss in ("hinge", "squared_hinge") if every else ():
        yield f"LinearSVC {loss}", LinearSVC(loss=loss, **common), False
    if every:
        yield "LinearSVR", LinearSVR(epsilon=0.1, **common), True
        yield "LinearSVC standardized", LinearSVC(standardize=True, **common), False
        yield "LinearSVR squared", LinearSVR(loss="squared_epsilon_insensitive", **common), True
    rates = {"max_iter": 3, "tol": None, "random_state": 0}
    for loss in LOSSES if every else ():
        if loss not in REGRESSION:
            yield f"SGDClassifier {loss}", SGDClassifier(loss=loss, **rates), False
    for loss in REGRESSION if every else ():
        yield f"SGDRegressor {loss}", SGDRegressor(loss=loss, **rates), True
    if every:
        for penalty in ("l1", "elasticnet"):
            yield f"SGDClassifier {penalty}", SGDClassifier(penalty=penalty, average=False, **rates), False
        yield "SGDClassifier momentum", SGDClassifier(momentum=0.9, clip_norm=1.0, standardize=True, **rates), False
        yield "SVCSearch", SVCSearch(SVC(), {"C": [1.0, 10.0]}, cv=2), False


def digest(estimator):
    """Return a digest of all attributes of a fit, except for times."""
    found, model = hashlib.sha256(), getattr(estimator, "best_estimator_", estimator)
    for name, value in sorted(vars(model).items()):
        if name.endswith("_") and name != "history_":
            for array in (value.data, value.indices, value.indptr) if sparse.issparse(value) else (value,):
                found.update(name.encode() + np.asarray(array).tobytes())
    return found.hexdigest()[:16]


def fits(every):
    """Yield the fits of `cases`, each with several kinds of rows."""
    for name, estimator, of_numbers in cases(every):
        for kind in ROWS if every else ("float64",):
            if not ("Search" in name and kind == "csr"):
                yield f"{name} {kind}", estimator, ROWS[kind], TARGETS if of_numbers else LABELS


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    wanted = list(fits(sys.argv[1] == "all"))
    for name, estimator, rows, y in wanted if sys.argv[2] == "forth" else reversed(wanted):
        print(name, digest(estimator.fit(rows, y)), flush=True)
