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
from fuzz import certificates
from fuzz.cases import Case, Drawn
from fuzz.certificates import LinearVerdict, U, Verdict
from scipy import sparse
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

import fastsvm
from fastsvm import _threads

__all__ = ["Find", "check"]

REFUSALS = re.compile(r"overflow|too (small|large)|be it by their rounding")
"""What an estimator may say of finite rows and valid parameters that it does not fit to."""

_BITS = (
    "support_", "dual_coef_", "coef_", "intercept_", "n_support_", "objective_", "dual_objective_", "duality_gap_",
    "kkt_violation_", "n_iter_", "converged_", "stop_reason_", "within_margin_", "loss_curve_", "classes_",
)  # fmt: skip
_SINGLE = float(np.finfo(np.float32).eps) / 2


class Find(AssertionError):
    """Something that should not be."""


def check(case: Case) -> None:
    """Raise `Find` if a fit of the case has a property that it should not have."""
    drawn = case.drawn()
    model = _fitted(case, drawn)
    if model is None or model.stop_reason_ == "max_time":
        return
    judge = (_JudgeSVC if case.estimator == "SVC" else _JudgeLinear)(case, drawn, model)
    judge.certificate()
    judge.decisions()
    _ASPECTS[case.aspect](case, drawn, model, judge)


# --- fits ------------------------------------------------------------------------------------------------


def _fitted(case: Case, drawn: Drawn, order: np.ndarray | None = None, **changed: Any) -> Any:
    """Return the fitted model, None if it was refused for a reason; say what is said in between."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
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


# --- the certificate of a kernel machine -----------------------------------------------------------------


class _JudgeSVC:
    """What the arrays of an SVC are worth."""

    def __init__(self, case: Case, drawn: Drawn, model: Any) -> None:
        self.case, self.drawn, self.model = case, drawn, model
        X, weight = drawn.dense, drawn.weights()
        self.gamma, self.gamma_error = certificates.resolved_gamma(model.gamma, X, drawn.weight)
        if abs(model._gamma - self.gamma) > self.gamma_error * self.gamma:
            raise Find(f"gamma: {model._gamma} instead of {self.gamma}")
        self.codes = _codes(drawn, model)
        self.upper = self._upper(weight)
        self.centre = np.zeros(X.shape[1]) if sparse.issparse(drawn.X) else weight @ X / weight.sum()
        self.K = self._kernel(X)
        self.squared = model.loss == "squared_hinge"
        self.usable = bool(np.isfinite(self.K.values).all() and np.isfinite(self.K.errors).all())
        self.verdict = self.judged(model, model.solver)

    def _kernel(self, Z: np.ndarray) -> certificates.Kernel:
        return certificates.kernel_of(self.model, Z, self.drawn.dense, self.model._gamma, self.centre)

    def _upper(self, weight: np.ndarray) -> np.ndarray:
        k, used = len(self.model.classes_), weight > 0
        factors = np.ones(k)
        if self.model.class_weight == "balanced":
            count = np.bincount(self.codes[used], weight[used], k)
            factors = count.sum() / (k * count)
        if not np.allclose(self.model.class_weight_, factors, rtol=8 * len(weight) * U, atol=0):
            raise Find(f"class_weight_: {self.model.class_weight_} instead of {factors}")
        return self.model.C * weight * np.where(used, self.model.class_weight_[self.codes], 0)

    def judged(self, model: Any, solver: str, order: np.ndarray | None = None) -> Verdict:
        codes, upper, K = self.codes, self.upper, self.K
        if order is not None:
            codes, upper = codes[order], upper[order]
            K = certificates.Kernel(K.values[np.ix_(order, order)], K.errors[np.ix_(order, order)])
        return certificates.judge_svc(model, K, codes, upper, solver, self.squared)

    def certificate(self) -> None:
        if not self.usable:
            return
        model, found = self.model, self.verdict
        finished = model.solver != "primal" or model.converged_
        if found.infeasible > 1e-13 and finished:
            raise Find(f"certificate: dual_coef_ is not feasible by {found.infeasible:.3g}")
        if model.converged_:
            _most("certificate: converged_, but the violation", found.violation, model.tol, found.violation_error)
            if model.solver == "coordinate":
                share = max(model.tol, 1e-12) * found.primal
                _most("certificate: converged_, but the gap", found.primal - found.dual, share, found.gap_error)
        stated = "primal" if model.solver == "primal" else "dual"
        value, error = getattr(found, stated), getattr(found, f"{stated}_error")
        _near("certificate: objective_", model.objective_, value, error)
        if finished:
            _near("certificate: kkt_violation_", model.kkt_violation_, found.violation, found.violation_error)
            _near("certificate: duality_gap_", model.duality_gap_, found.gap, found.gap_error)

    def decisions(self) -> None:
        if not self.usable:
            return
        model, shape = self.model, self.model.decision_function_shape
        for X, dense in ((self.drawn.X, self.drawn.dense), (self.drawn.others, self.drawn.others_dense)):
            K = self.K if X is self.drawn.X else self._kernel(dense)
            if not np.isfinite(K.errors).all():
                continue
            wanted, error = certificates.decisions_of(model, K, self.codes, self.upper)
            model.decision_function_shape = "ovo"
            found = model.decision_function(X).reshape(wanted.shape)
            model.decision_function_shape = shape
            _all_near("decision_function", found, wanted, error)
            self._votes(X, wanted, error)

    def _votes(self, X: Any, wanted: np.ndarray, error: np.ndarray) -> None:
        """Compare classes with those that the decisions elect, where rounding has no vote and none is tied."""
        k = len(self.model.classes_)
        counts = np.zeros((len(wanted), k))
        if k == 2:
            counts[:, 1], counts[:, 0] = wanted[:, 0] > 0, wanted[:, 0] < 0
        else:
            for column, (a, b) in enumerate((a, b) for a in range(k) for b in range(a + 1, k)):
                counts[:, a] += wanted[:, column] > 0
                counts[:, b] += wanted[:, column] < 0
        ranked = np.sort(counts, axis=1)
        clear = (np.abs(wanted) > error).all(axis=1) & (ranked[:, -1] > ranked[:, -2])
        predicted = self.model.predict(X)
        if (predicted[clear] != self.model.classes_[counts.argmax(axis=1)][clear]).any():
            raise Find("predict: not the class that the decisions elect")

    def lower_bound(self) -> tuple[float, float]:
        return self.verdict.dual, self.verdict.dual_error

    def upper_bound(self) -> tuple[float, float]:
        return self.verdict.primal, self.verdict.primal_error


def _codes(drawn: Drawn, model: Any) -> np.ndarray:
    """Return the numbers of the rows' classes; those of weight 0 may have none."""
    codes = np.searchsorted(model.classes_, drawn.y)
    codes = np.minimum(codes, len(model.classes_) - 1)
    known = (model.classes_[codes] == drawn.y) | (drawn.weights() == 0)
    if not known.all():
        raise Find(f"classes_: {model.classes_} are not those of y")
    return codes


def _near(words: str, stated: float, found: float, error: float) -> None:
    if not (abs(stated - found) <= error + 4 * U * abs(found)):
        raise Find(f"{words} is stated as {stated:.9g}, and is {found:.9g}; rounding explains {error:.3g}")


def _most(words: str, found: float, limit: float, error: float) -> None:
    if not (found <= limit + error):
        raise Find(f"{words} is {found:.9g} instead of at most {limit:.9g}; rounding explains {error:.3g}")


def _all_near(words: str, found: np.ndarray, wanted: np.ndarray, error: np.ndarray) -> None:
    wrong = ~(np.abs(found - wanted) <= error + 4 * U * np.abs(wanted))
    if wrong.any():
        i = np.unravel_index(np.argmax(wrong), wrong.shape)
        raise Find(f"{words} is {found[i]:.17g} instead of {wanted[i]:.17g} in row {i[0]}; rounding explains {error[i]:.3g}")


# --- the certificate of a linear model -------------------------------------------------------------------


class _JudgeLinear:
    """What the weights of a linear model are worth."""

    def __init__(self, case: Case, drawn: Drawn, model: Any) -> None:
        self.case, self.drawn, self.model = case, drawn, model
        self.descends = case.estimator.startswith("SGD")
        weight = drawn.weights()
        coupled = getattr(model, "multi_class", "ovr") != "ovr"
        self.loss = model.multi_class if coupled else model.loss
        self.epsilon = float(getattr(model, "epsilon", 0.0))
        self.usable = not model.standardize
        C = 1.0 if self.descends else float(model.C)
        self.total = float(weight.sum())
        if case.regresses:
            self.targets, self.costs = drawn.target[:, None], (C * weight)[:, None]
            return
        codes, k, used = _codes(drawn, model), len(model.classes_), weight > 0
        factors = np.ones(k)
        if model.class_weight == "balanced":
            count = np.bincount(codes[used], weight[used], k)
            factors = count.sum() / (k * count)
        if self.loss in certificates.OF_CLASSES:
            self.targets, self.costs = codes, C * weight * factors[codes]
        elif k == 2:
            self.targets, self.costs = np.where(codes == 1, 1.0, -1.0)[:, None], (C * weight * factors[codes])[:, None]
        else:
            self.targets = np.where(codes[:, None] == np.arange(k), 1.0, -1.0)
            self.costs = C * weight[:, None] * np.where(self.targets > 0, factors, 1.0)

    def judged(self, model: Any, order: np.ndarray | None = None) -> LinearVerdict:
        """Return the objective; `order` does not matter to it."""
        given = model, self.loss, self.drawn.dense, self.targets, self.costs
        if self.descends:
            return certificates.descent_objective(*given, self.total)
        return certificates.judge_linear(*given, self.epsilon)

    def certificate(self) -> None:
        if not self.usable:
            return
        model, found = self.model, self.judged(self.model)
        shown_as_one = self.loss in certificates.OF_CLASSES and len(np.atleast_2d(model.coef_)) == 1
        if shown_as_one and found.objective < model.objective_:
            # Two scores are shown by their difference, whose halves are no worse than the two.
            gap = np.inf if self.descends else model.duality_gap_
            _most("certificate: objective_", model.objective_ - found.objective, gap, found.error)
        else:
            _near("certificate: objective_", model.objective_, found.objective, found.error)
        if self.descends:
            return
        _near("certificate: duality_gap_", model.duality_gap_, model.objective_ - model.dual_objective_, 0.0)
        if model.dual_objective_ > model.objective_ + found.error + self.dual_error():
            raise Find(f"certificate: dual_objective_ {model.dual_objective_} is above objective_ {model.objective_}")
        if model.converged_ and model.criterion == "gap":
            share = model.tol * model.objective_
            _most("certificate: converged_, but the gap", model.duality_gap_, share, found.error)

    def dual_error(self) -> float:
        """Return a bound on the rounding of the dual objective: of Σ β x, by how large β can be near the optimum."""
        X, costs = self.drawn.dense, np.asarray(self.costs if self.costs.ndim == 2 else self.costs[:, None], float)
        W = np.atleast_2d(self.model.coef_)
        scores, _ = certificates.linear_scores(W, np.atleast_1d(self.model.intercept_), X)
        size = costs.copy()
        if "squared" in self.loss:
            size = 2 * costs * (np.abs(scores).astype(float) + np.abs(self.targets) + 1)
        length = float(np.sqrt((W**2).sum() + (np.atleast_1d(self.model.intercept_) ** 2).sum()))
        n = len(X) + 4
        of_sum = n * U * (np.abs(size).T @ np.column_stack([np.abs(X), np.ones(len(X))]))
        return float(length * np.linalg.norm(of_sum) + np.linalg.norm(of_sum) ** 2 + n * U * size.sum() * (1 + self.epsilon))

    def decisions(self) -> None:
        model, values = self.model, self.drawn.X.data.dtype if sparse.issparse(self.drawn.X) else self.drawn.X.dtype
        u = U if model.standardize or not np.can_cast(values, np.float32, "safe") else _SINGLE
        for X, dense in ((self.drawn.X, self.drawn.dense), (self.drawn.others, self.drawn.others_dense)):
            wanted, error = certificates.linear_scores(model.coef_, model.intercept_, dense, u)
            found = model.predict(X) if self.case.regresses else model.decision_function(X)
            if u == _SINGLE and not (np.abs(wanted) + error < 1e38).all():
                continue
            _all_near("decision_function", found.reshape(wanted.shape), wanted.astype(float), error + u * 1e-38)
            if not self.case.regresses:
                self._classes(X, found)

    def _classes(self, X: Any, found: np.ndarray) -> None:
        chosen = (found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)
        if (self.model.predict(X) != self.model.classes_[chosen]).any():
            raise Find("predict: not the class of the largest decision value")

    def lower_bound(self) -> tuple[float, float]:
        return self.model.dual_objective_, self.dual_error()

    def upper_bound(self) -> tuple[float, float]:
        return self.judged(self.model)


# --- bits ------------------------------------------------------------------------------------------------


def _again(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    _same_model(case, drawn, _fitted(case, drawn), model, "a second fit")


def _one_thread(case: Case, drawn: Drawn, model: Any, judge: Any) -> None:
    with _threads.at_most(1):
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
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
            group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr
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
        pairs = ((found.dual, found.dual_error, *judge.upper_bound()), (*judge.lower_bound(), found.primal, found.primal_error))
    else:
        pairs = ((other.dual_objective_, judge.dual_error(), *judge.upper_bound()), (*judge.lower_bound(), *judge.judged(other)))
    for low, low_error, high, high_error in pairs:
        _most("permuted: a lower bound", low, high, low_error + high_error + 16 * U * abs(high))


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
    _most("reference: dual_objective_", low, found.objective, found.error + error + 16 * U * abs(low))


def _compare_svc(drawn: Drawn, model: Any, judge: _JudgeSVC, theirs: Any) -> None:
    dense = theirs.dual_coef_.toarray() if sparse.issparse(theirs.dual_coef_) else theirs.dual_coef_
    theirs.__dict__["_dual_coef_"] = dense
    found = certificates.judge_svc(_Dense(theirs, dense), judge.K, judge.codes, judge.upper, "smo", squared=False)
    if found.infeasible < 1e-9:
        slack = 2 * found.infeasible * float(judge.upper.sum()) * (1 + np.abs(model.intercept_).max())
        _most("reference: their dual", found.dual, judge.verdict.primal, slack + found.dual_error + judge.verdict.primal_error)
    _most("reference: our dual", judge.verdict.dual, found.primal, found.primal_error + judge.verdict.dual_error)
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
        if model.solver == "primal" and not model.fit_intercept:
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
