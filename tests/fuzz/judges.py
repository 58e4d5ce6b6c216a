"""What a model says of itself, beside what its arrays are worth."""

from itertools import combinations
from typing import Any

import numpy as np
from eighty_digits import worth
from fuzz import certificates, linear_certificates
from fuzz.cases import Case, Drawn
from fuzz.certificates import U, Verdict
from fuzz.linear_certificates import LinearVerdict
from scipy import sparse

__all__ = ["Find", "JudgeLinear", "JudgeSVC", "most"]

_LARGE = 1e-3  # of the tolerance, or of the objective, errors of float64 that are looked at more closely
_LAST = 1e-13  # relative error of the judge's rounding to floats, and of few sums
_WIDER = 64  # times what the judge allows for rounding, the allowance of the package, which knows less
_MOST_MULTIPLIED = 200_000  # numbers in 80 digits
_SINGLE = float(np.finfo(np.float32).eps) / 2


class Find(AssertionError):
    """Something that should not be."""


# --- the certificate of a kernel machine -----------------------------------------------------------------


class JudgeSVC:
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
        if found.offset > 1 and finished:
            raise Find(f"certificate: intercept_ {model.intercept_} is beyond all decision values")
        if model.converged_:
            most("certificate: converged_, but the violation", found.violation, model.tol, found.violation_error)
            if model.solver == "coordinate":
                share = max(model.tol, 1e-12) * found.primal
                most("certificate: converged_, but the gap", found.primal - found.dual, share, found.gap_error)
        self._in_eighty_digits()
        stated = "primal" if model.solver == "primal" else "dual"
        value, error = getattr(found, stated), getattr(found, f"{stated}_error")
        near("certificate: objective_", model.objective_, value, error)
        if finished:
            bounds = (found.violation, found.violation_error), (found.gap, found.gap_error)
            shares = 0.1 * model.tol, 0.1 * found.gap + 1e-5 * abs(found.dual)
            _bound("certificate: kkt_violation_", model.kkt_violation_, *bounds[0], shares[0])
            _bound("certificate: duality_gap_", model.duality_gap_, *bounds[1], shares[1])

    def _in_eighty_digits(self) -> None:
        """Compare bounds with what the arrays are worth, without any allowance where rounding is large."""
        model, found, X = self.model, self.verdict, self.drawn.dense
        size = X.size * max(1, len(model.support_))
        is_large = found.violation_error > _LARGE * model.tol or found.gap_error > _LARGE * abs(found.dual)
        if model.solver != "smo" or model.standardize or not is_large or size > _MOST_MULTIPLIED:
            return
        true = worth(model, X, self.drawn.y, self.drawn.weights())
        if not model.kkt_violation_ * (1 + _LAST) >= true.violation:
            raise Find(f"certificate: kkt_violation_ is {model.kkt_violation_}, and in 80 digits {true.violation}")
        if not model.duality_gap_ + _LAST * abs(true.dual) >= true.gap:
            raise Find(f"certificate: duality_gap_ is {model.duality_gap_}, and in 80 digits {true.gap}")
        if not abs(model.objective_ - true.dual) <= model.duality_gap_ + _LAST * abs(true.dual):
            raise Find(f"certificate: objective_ is {model.objective_}, and in 80 digits {true.dual}")

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
            _allnear("decision_function", found, wanted, error)
            self._votes(X, wanted, error)

    def _votes(self, X: Any, wanted: np.ndarray, error: np.ndarray) -> None:
        """Compare classes with those that the decisions elect, where rounding has no vote and none is tied."""
        k = len(self.model.classes_)
        counts = np.zeros((len(wanted), k))
        if k == 2:
            counts[:, 1], counts[:, 0] = wanted[:, 0] > 0, wanted[:, 0] < 0
        else:
            for column, (a, b) in enumerate(combinations(range(k), 2)):
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


def near(words: str, stated: float, found: float, error: float) -> None:
    if not (abs(stated - found) <= error + 4 * U * abs(found)):
        raise Find(f"{words} is stated as {stated:.9g}, and is {found:.9g}; rounding explains {error:.3g}")


def _bound(words: str, stated: float, found: float, error: float, most: float) -> None:
    """Raise if what is stated as a bound is none, or is wider than rounding explains and not hidden by `most`."""
    if not found * (1 - _LAST) - error <= stated <= found + most + _WIDER * error:
        raise Find(f"{words} is stated as {stated:.9g}, and is {found:.9g}; rounding explains {error:.3g}")


def most(words: str, found: float, limit: float, error: float) -> None:
    if not (found <= limit + error):
        raise Find(f"{words} is {found:.9g} instead of at most {limit:.9g}; rounding explains {error:.3g}")


def _allnear(words: str, found: np.ndarray, wanted: np.ndarray, error: np.ndarray) -> None:
    wrong = ~(np.abs(found - wanted) <= error + 4 * U * np.abs(wanted))
    if wrong.any():
        i = np.unravel_index(np.argmax(wrong), wrong.shape)
        raise Find(
            f"{words} is {found[i]:.17g} instead of {wanted[i]:.17g} in row {i[0]}; rounding explains {error[i]:.3g}"
        )


# --- the certificate of a linear model -------------------------------------------------------------------


class JudgeLinear:
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
        if self.loss in linear_certificates.OF_CLASSES:
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
            return linear_certificates.descent_objective(*given, self.total)
        return linear_certificates.judge_linear(*given, self.epsilon)

    def certificate(self) -> None:
        if not self.usable:
            return
        model, found = self.model, self.judged(self.model)
        shown_as_one = self.loss in linear_certificates.OF_CLASSES and len(np.atleast_2d(model.coef_)) == 1
        if shown_as_one and found.objective < model.objective_:
            # Two scores are shown by their difference, whose halves are no worse than the two.
            gap = np.inf if self.descends else model.duality_gap_
            most("certificate: objective_", model.objective_ - found.objective, gap, found.error)
        else:
            near("certificate: objective_", model.objective_, found.objective, found.error)
        if self.descends:
            return
        gap = max(model.objective_ - model.dual_objective_, 0.0)
        near("certificate: duality_gap_", model.duality_gap_, gap, 0.0)
        if model.dual_objective_ > model.objective_ + found.error + self.dual_error():
            raise Find(f"certificate: dual_objective_ {model.dual_objective_} is above objective_ {model.objective_}")
        if model.converged_ and model.criterion == "gap":
            share = model.tol * model.objective_
            most("certificate: converged_, but the gap", model.duality_gap_, share, found.error)

    def dual_error(self) -> float:
        """Return a bound on the rounding of the dual objective: of Σ β x, by how large β can be near the optimum."""
        X, costs = self.drawn.dense, np.asarray(self.costs if self.costs.ndim == 2 else self.costs[:, None], float)
        W = np.atleast_2d(self.model.coef_)
        scores, _ = linear_certificates.linear_scores(W, np.atleast_1d(self.model.intercept_), X)
        size = costs.copy()
        if "squared" in self.loss:
            size = 2 * costs * (np.abs(scores).astype(float) + np.abs(self.targets) + 1)
        length = float(np.sqrt((W**2).sum() + (np.atleast_1d(self.model.intercept_) ** 2).sum()))
        n = len(X) + 4
        of_sum = n * U * (np.abs(size).T @ np.column_stack([np.abs(X), np.ones(len(X))]))
        return float(
            length * np.linalg.norm(of_sum) + np.linalg.norm(of_sum) ** 2 + n * U * size.sum() * (1 + self.epsilon)
        )

    def decisions(self) -> None:
        model, values = self.model, self.drawn.X.data.dtype if sparse.issparse(self.drawn.X) else self.drawn.X.dtype
        u = U if model.standardize or not np.can_cast(values, np.float32, "safe") else _SINGLE
        for X, dense in ((self.drawn.X, self.drawn.dense), (self.drawn.others, self.drawn.others_dense)):
            wanted, error = linear_certificates.linear_scores(model.coef_, model.intercept_, dense, u)
            found = model.predict(X) if self.case.regresses else model.decision_function(X)
            if u == _SINGLE and not (np.abs(wanted) + error < 1e38).all():
                continue
            _allnear("decision_function", found.reshape(wanted.shape), wanted.astype(float), error + u * 1e-38)
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
