"""What must hold of every estimator on every case."""

import pickle
import re
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from csr_group import write_csr
from fuzz import certificates
from fuzz.cases import Case, Drawn
from fuzz.certificates import U
from fuzz.judges import Find, JudgeLinear, JudgeSVC, most
from scipy import sparse
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

import fastsvm
from fastsvm._compiled import threads

__all__ = ["Find", "check"]

REFUSALS = re.compile(r"overflow|too (small|large)|be it by their rounding")
"""What an estimator may say of finite rows and valid parameters that it does not fit to."""

_BITS = (
    "support_", "dual_coef_", "coef_", "intercept_", "n_support_", "objective_", "dual_objective_", "duality_gap_",
    "kkt_violation_", "n_iter_", "converged_", "stop_reason_", "within_margin_", "loss_curve_", "classes_",
)  # fmt: skip


def check(case: Case) -> None:
    """Raise `Find` if a fit of the case has a property that it should not have."""
    drawn = case.drawn()
    model = _fitted(case, drawn)
    if model is None or model.stop_reason_ == "max_time":
        return
    judge = (JudgeSVC if case.estimator == "SVC" else JudgeLinear)(case, drawn, model)
    judge.certificate()
    judge.decisions()
    _ASPECTS[case.aspect](case, drawn, model, judge)


# --- fits ------------------------------------------------------------------------------------------------


def _fitted(case: Case, drawn: Drawn, order: np.ndarray | None = None, **changed: Any) -> Any:
    """Return the fitted model, None if it was refused for a reason; say what is said in between."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "The features have very different lengths")
        model = _quietly_fitted(case, drawn, order, **changed)
    others = [each for each in said if not issubclass(each.category, ConvergenceWarning)]
    if others:
        raise Find(f"warning: {others[0].category.__name__}: {others[0].message} at {others[0].filename}")
    if model is not None and model.converged_ == bool(said):
        raise Find(f"warning: converged_ is {model.converged_}, and {len(said)} ConvergenceWarnings were given")
    return model


def _quietly_fitted(case: Case, drawn: Drawn, order: np.ndarray | None = None, **changed: Any) -> Any:
    model = case.model(**changed)
    X, y, weight = drawn.X, drawn.target if case.regresses else drawn.y, drawn.weight
    if order is not None:
        X, y, weight = X[order], y[order], None if weight is None else weight[order]
    try:
        return model.fit(X, y, sample_weight=weight)
    except ValueError as error:
        if not REFUSALS.search(str(error)):
            raise Find(f"refused: {error}") from error
        return None


def _bits(model: Any, drawn: Drawn, regresses: bool) -> dict[str, Any]:
    found = {name: getattr(model, name) for name in _BITS if name in vars(model)}
    found = {name: value.toarray() if sparse.issparse(value) else value for name, value in found.items()}
    found["predict"] = model.predict(drawn.others)
    if not regresses:
        found["decision_function"] = model.decision_function(drawn.others)
    return found


def _same(found: dict[str, Any], wanted: dict[str, Any], words: str) -> None:
    for name, value in wanted.items():
        if not _equal(found.get(name), value):
            raise Find(f"bits: {words}: {name} differs by {_difference(found.get(name), value)}")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and _image(a) == _image(b)
    return a == b or (a != a and b != b)


def _image(a: np.ndarray) -> Any:
    return a.tolist() if a.dtype.kind in "OU" else np.ascontiguousarray(a).tobytes()


def _difference(a: Any, b: Any) -> Any:
    try:
        return float(np.abs(np.asarray(a, float) - np.asarray(b, float)).max())
    except (TypeError, ValueError):
        return f"{np.shape(a)} against {np.shape(b)}"


# --- bits ------------------------------------------------------------------------------------------------


def _again(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    _same_model(case, drawn, _fitted(case, drawn), model, "a second fit")


def _one_thread(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    with threads.at_most(1):
        other = _fitted(case, drawn)
    _same_model(case, drawn, other, model, "one thread")


def _same_model(case: Case, drawn: Drawn, other: Any, model: Any, words: str) -> None:
    if other is None:
        raise Find(f"bits: {words}: refused")
    if other.stop_reason_ != "max_time":
        _same(_bits(other, drawn, case.regresses), _bits(model, drawn, case.regresses), words)


def _in_threads(works: list[Callable[[], Any]]) -> list[Any]:
    found: list[Any] = [None] * len(works)

    def work(k: int) -> None:
        try:
            found[k] = works[k]()
        except BaseException as error:
            found[k] = error

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(works))]
    with warnings.catch_warnings():  # which is of all threads
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The features have very different lengths")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return found


def _other_thread(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    (bits,) = _in_threads([lambda: _thread_bits(case, drawn)])
    if bits is not None:
        _same(bits, _bits(model, drawn, case.regresses), "another thread")


def _two_at_once(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    wanted = _bits(model, drawn, case.regresses)
    for bits in _in_threads([lambda: _thread_bits(case, drawn)] * 2):
        if bits is not None:
            _same(bits, wanted, "two fits at once")


def _thread_bits(case: Case, drawn: Drawn) -> dict[str, Any] | None:
    other = _quietly_fitted(case, drawn)
    if other is None:
        raise Find("bits: another thread: refused")
    return None if other.stop_reason_ == "max_time" else _bits(other, drawn, case.regresses)


# --- to disk and back ------------------------------------------------------------------------------------


def _stored(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.h5"
        fastsvm.save(model, path)
        wanted = _bits(model, drawn, case.regresses)
        again = fastsvm.load(path)
        _same(_bits(again, drawn, case.regresses), wanted, "a model saved and loaded")
        if again.get_params() != model.get_params():
            raise Find(f"stored: parameters are {again.get_params()} instead of {model.get_params()}")
        if not np.asarray(drawn.others_dense).size or drawn.others.dtype == bool:
            return
        rows = Path(folder) / "rows.h5"
        _write(rows, drawn.others)
        with fastsvm.open_hdf5(rows) as data:
            _same({"predict": again.predict(data)}, {"predict": wanted["predict"]}, "rows of a file")
            if not case.regresses:
                name = "decision_function"
                _same({name: again.decision_function(data)}, {name: wanted[name]}, "rows of a file")


def _write(path: Path, X: Any) -> None:
    with h5py.File(path, "w") as file:
        if sparse.issparse(X):
            group = file.create_group("X")
            write_csr(group, X)
        else:
            file["X"] = np.ascontiguousarray(X)


def _pickled(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    again = pickle.loads(pickle.dumps(model))
    _same(_bits(again, drawn, case.regresses), _bits(model, drawn, case.regresses), "a model pickled")


def _alone(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    """Compare what is said of rows one by one with what is said of them together."""
    names = ["predict"] if case.regresses else ["predict", "decision_function"]
    for X in (drawn.others, drawn.X):
        n = min(X.shape[0], 20)
        for name in names:
            ask = getattr(model, name)
            together = ask(X)[:n]
            single = np.concatenate([ask(X[i : i + 1]) for i in range(n)])
            _same({name: single}, {name: together}, "rows alone and in a batch")


# --- other ways to the same ------------------------------------------------------------------------------


def _permuted(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    """Compare objectives in another order: neither's lower bound is above what the other reached."""
    order = np.random.default_rng(case.rows.seed).permutation(len(drawn.y))
    other = _fitted(case, drawn, order)
    if other is None:
        raise Find("permuted: refused")
    if not judge.usable or case.estimator.startswith("SGD") or not _bounded(model):
        return
    if case.estimator == "SVC":
        found = judge.judged(other, model.solver, order)
        pairs = (
            (found.dual, found.dual_error, *judge.upper_bound()),
            (*judge.lower_bound(), found.primal, found.primal_error),
        )
        if model.solver == "primal":  # also that of a fit that ended early, whose multipliers are not those it is of
            pairs += (
                (other.objective_ - other.duality_gap_, found.gap_error, *judge.upper_bound()),
                (model.objective_ - model.duality_gap_, judge.verdict.gap_error, found.primal, found.primal_error),
            )
    else:
        pairs = (
            (other.dual_objective_, judge.dual_error(), *judge.upper_bound()),
            (*judge.lower_bound(), *judge.judged(other)),
        )
    for low, low_error, high, high_error in pairs:
        most("permuted: a lower bound", low, high, low_error + high_error + 16 * U * abs(high))


def _bounded(model: Any) -> bool:
    """Return whether the dual objective bounds the primal one: for kernels that are positive semi-definite."""
    return getattr(model, "kernel", "linear") != "sigmoid"


def _reference(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    """Compare with scikit-learn's solution: its objective is not below the lower bound, nor its bound above ours."""
    theirs = _theirs(case, drawn, model)
    if theirs is None or not judge.usable or not _bounded(model):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs.fit(drawn.X, drawn.target if case.regresses else drawn.y, sample_weight=drawn.weight)
        except ValueError:
            return
    if case.estimator == "SVC":
        if np.shape(theirs.dual_coef_)[1] == 0 or not np.array_equal(theirs.classes_, model.classes_):
            return
        _compare_svc(drawn, model, judge, theirs)
        return
    theirs.fit_intercept, theirs.intercept_scaling = model.fit_intercept, model.intercept_scaling
    found = judge.judged(theirs)
    low, error = judge.lower_bound()
    most("reference: dual_objective_", low, found.objective, found.error + error + 16 * U * abs(low))


def _compare_svc(drawn: Drawn, model: Any, judge: JudgeSVC, theirs: Any) -> None:
    dense = theirs.dual_coef_.toarray() if sparse.issparse(theirs.dual_coef_) else theirs.dual_coef_
    theirs.__dict__["_dual_coef_"] = dense
    found = certificates.judge_svc(_Dense(theirs, dense), judge.K, judge.codes, judge.upper, "smo", squared=False)
    if found.infeasible < 1e-9:
        slack = 2 * found.infeasible * float(judge.upper.sum()) * (1 + np.abs(model.intercept_).max())
        most(
            "reference: their dual",
            found.dual,
            judge.verdict.primal,
            slack + found.dual_error + judge.verdict.primal_error,
        )
    most("reference: our dual", judge.verdict.dual, found.primal, found.primal_error + judge.verdict.dual_error)
    ours, our_error = certificates.decisions_of(model, judge.K, judge.codes, judge.upper)
    other, their_error = certificates.decisions_of(_Dense(theirs, dense), judge.K, judge.codes, judge.upper)
    lengths = np.sqrt(np.maximum(0, np.diag(judge.K.values).astype(float) + np.diag(judge.K.errors)))
    for column, (a, b) in enumerate(zip(judge.verdict.distance, found.distance, strict=True)):
        apart = lengths * (a + b) + our_error[:, column] + their_error[:, column]
        apart += abs(model.intercept_[column] - theirs.intercept_[column])
        clear = np.abs(other[:, column]) > apart
        if (np.sign(ours[clear, column]) != np.sign(other[clear, column])).any():
            raise Find("reference: another side of a clear margin than scikit-learn's")


class _Dense:
    """scikit-learn's model with its coefficients in an array."""

    fit_intercept = True

    def __init__(self, model: Any, dual_coef: np.ndarray) -> None:
        self.dual_coef_, self.intercept_, self.support_ = dual_coef, model.intercept_, model.support_
        self.n_support_, self.classes_ = model.n_support_, model.classes_


def _theirs(case: Case, drawn: Drawn, model: Any) -> Any:
    if case.estimator == "SVC":
        if model.solver == "coordinate" or model.loss != "hinge" or model.kernel in ("laplacian", "exponential"):
            return None
        names = {name: getattr(model, name) for name in ("C", "kernel", "degree", "coef0", "class_weight")}
        return svm.SVC(gamma=model._gamma, tol=1e-6, max_iter=20_000, **names)
    if case.estimator == "LinearSVR":
        names = {name: getattr(model, name) for name in ("C", "loss", "epsilon", "fit_intercept", "intercept_scaling")}
        return svm.LinearSVR(tol=1e-6, max_iter=300, random_state=0, dual=True, **names)
    if case.estimator == "LinearSVC" and model.multi_class != "weston_watkins":
        names = ("C", "loss", "multi_class", "fit_intercept", "intercept_scaling", "class_weight")
        return svm.LinearSVC(tol=1e-6, max_iter=300, random_state=0, dual=True, **{n: getattr(model, n) for n in names})
    return None


_ASPECTS = {
    "again": _again,
    "one thread": _one_thread,
    "other thread": _other_thread,
    "two at once": _two_at_once,
    "stored": _stored,
    "pickled": _pickled,
    "permuted": _permuted,
    "reference": _reference,
    "alone": _alone,
}
