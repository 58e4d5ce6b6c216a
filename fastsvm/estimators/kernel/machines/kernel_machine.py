"""What all kernel machines have in common: checks of parameters, the course of a fit, and sums of kernel values."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted

from fastsvm._compiled.threads import Pool, one_thread
from fastsvm.estimators.fitting.documentation import parametrised
from fastsvm.estimators.fitting.session import FitSession, IterativeEstimator, of_one_model, view_of, warn_of_violation
from fastsvm.estimators.fitting.validation import (
    STATISTICS,
    Attributes,
    Column,
    Samples,
    TrainingSet,
    boolean,
    check_columns,
    check_parameters,
    check_rows,
    number,
    optional,
)
from fastsvm.estimators.kernel.kernel_parameter import (
    KERNEL_RULES,
    KernelEstimator,
    ObjectSource,
    Standardization,
    check_kernel_object,
    is_precomputed,
    resolve_kernel,
    samples_for,
)
from fastsvm.estimators.kernel.one_vs_one import KernelFit, Outcome
from fastsvm.estimators.kernel.prediction import Predictor
from fastsvm.estimators.kernel.prepare import Statement, enough_memory, prepare, warn_of_time
from fastsvm.estimators.kernel.progress import KernelFitMonitor
from fastsvm.estimators.kernel.solver_parameter import SOLVERS, MachineParameters, most_steps
from fastsvm.kernel_matrix.expansion import PairCoefficients
from fastsvm.kernel_matrix.rounding import ROUNDING
from fastsvm.kernels import Linear
from fastsvm.memory import parse_memory, threads_within
from fastsvm.solvers.outer_loop import Limits, StopReason
from fastsvm.sources import DenseBlock, MemorySource, Source, is_stored, to_dense
from fastsvm.tuning import current_tuning

_FEW_ROWS, _FEW_VALUES = 8, 1 << 16  # So many rows, or kernel values, are predicted without a pool of threads.
_RULES = KERNEL_RULES | {
    "cache_size": optional(number(above=0)),
    "max_iter": number(integral=True, least=-1),
    "shrinking": boolean,
}


@parametrised
class KernelMachine(MachineParameters, KernelEstimator, IterativeEstimator, BaseEstimator):
    """Fits problems of multipliers, and sums kernel values with the support vectors.

    The class attributes say along which parameters a fit begins at the solution for other values, and which estimator
    is for many samples.

    Parameters
    ----------
    shrinking : bool, default=True
        Ignored: each fit looks at all samples. It is there because scikit-learn's machines have it.
    tol : float, default=1e-3
        Largest violation of the optimality conditions at the end, in units of decision values, or targets of a
        regression.
    memory : "auto", int or str, default="auto"
        Memory that a fit may use, the support vectors of the model included: bytes, or a size such as "2GB". "auto" is
        half of what is available. Samples in memory do not count. Beside it, machine code takes some 20 MB in the first
        fit of a process, up to 100 MB if it must be compiled, and the allocator may keep some 10 MB that were freed.
    cache_size : float or None, default=None
        Bound on the cache of kernel rows in MiB, within `memory`.
    max_iter : int, default=-1
        Most steps, of two multipliers each; of a classifier, those of each two-class problem. -1 is a finite default:
        max(10,000,000, 100 n).
    warm_start : bool, default=False
        Begin the next fit at the multipliers of the last, also after an interrupt, if the number of samples, and of a
        classifier the classes, are the same.

    Attributes
    ----------
    support_ : ndarray of int64, shape (n_SV,)
        Row numbers of the support vectors, in rising order.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Support vectors, in the type in which X was stored; empty for a precomputed kernel.
    n_support_ : ndarray of int32, shape (1,)
        Number of support vectors.
    dual_coef_ : ndarray or CSR matrix of float64, shape (1, n_SV)
        Coefficients of the support vectors.
    coef_ : ndarray or CSR matrix of float64, shape (1, n_features)
        Weights of the features, for the linear kernel only; with `standardize` of the standardised features.
    objective_ : float
        Dual objective.
    kkt_violation_ : float
        The largest violation of the optimality conditions.
    duality_gap_ : float
        Primal minus dual objective, of a classifier summed over the two-class problems: how far from the optimum the
        fit is at most, if the kernel is positive semi-definite.
    converged_ : bool
        Whether the violation is within `tol`.
    solver_ : str
        What solved the problem, chosen by its size: "small-rows" or "small-matrix" for few samples at once, else the
        steps that `solver` names, "smo" without this parameter.
    n_iter_ : int
        Steps.
    history_ : dict of str to ndarray
        One entry an outer iteration: problem, time (s), iteration (steps), objective, gap, rows_computed,
        cache_hits, bytes_read, newton (Newton steps kept). `pandas.DataFrame(model.history_)` is a table of it.
    passes_ : int
        Passes over the rows.
    fit_status_ : int
        0 if converged, else 1.
    shape_fit_ : tuple of int
        Shape of the X of the fit.
    """

    follows: ClassVar[tuple[str, ...]] = ("C",)
    of_many: ClassVar[str] = ""
    # A fit also fits folds, rows of training and test, with its kernel, and lists the decision values of the latter.
    _held_out: tuple[Sequence[tuple[np.ndarray, np.ndarray]], list[np.ndarray]] = (), []

    _: KW_ONLY
    shrinking: bool = True
    tol: float = 1e-3
    memory: str | int = "auto"
    cache_size: float | None = None
    max_iter: int = -1
    max_time: float | None = None
    warm_start: bool = False
    verbose: bool | int = False

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse rows are taken, and kernel matrices if precomputed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_precomputed(self)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "dual_coef_")

    # --- the course of a fit -----------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_parameters(self, self._own_rules() | _RULES)
        check_kernel_object(self.kernel)
        if self.standardize and is_precomputed(self):
            raise ValueError("standardize=True needs features, X holds kernel values. Scale before they are computed.")
        parse_memory(self.memory, enough=0)

    def _checked(self, X: Samples, y: Column, sample_weight: Column) -> TrainingSet:
        """Return the training set."""
        samples = samples_for(self, X)
        if self.standardize and isinstance(samples, ObjectSource):
            raise ValueError("standardize=True needs features, but the samples are not numbers.")
        data = super()._checked(samples, y, sample_weight)
        check_columns(self.memory, data.source.shape[1], STATISTICS)
        return data

    @abstractmethod
    def _state(self, data: TrainingSet) -> Statement:
        """Return what is asked of the samples; those of weight 0 are left out."""

    def _learn(self, X: Samples, y: Column, sample_weight: Column, session: FitSession) -> None:
        tuning = current_tuning().kernel
        data = self._checked(X, y, sample_weight)
        stated = self._state(data)
        classes = stated.classes
        session.begin()
        with Pool.open(most=threads_within(self.memory)) as pool:
            budget = parse_memory(self.memory, enough_memory(data.source, pool.n_threads))
            task, samples, fixed = prepare(self, data, stated, budget, pool, session.has_callbacks, tuning)
            splits, decided = self._held_out
            folds = [task.add_fold(stated.problems, self._bounds(data, train)) for train, _ in splits]
            del data  # whose samples may be in memory, where the fit reads them in each pass
            records: list[tuple] = []
            if session.resume_from is not None:
                checkpoint, records = session.resume_from
                task.resume(checkpoint)
            last = session.warm_start("_multipliers")
            if last is not None and np.array_equal(last[0], classes) and task.has_as_many(last[1]):
                task.start(last[1])
            elif session.resume_from is None and self.of_many:
                warn_of_time(self, task, self.of_many)

            def attributes() -> Attributes:
                return fixed | self._attributes(task, samples, classes)

            solver = self.solver if task.small is None else task.small.name
            monitor = KernelFitMonitor(session, task.problems.n_problems, solver, attributes, records)
            with session.solving(monitor, "_multipliers", lambda: (classes, task.multipliers())):
                task.run(Limits(most_steps(self, len(task.labels)), session.deadline), monitor)
            self.__dict__.update(attributes())
            for fold, (_, test) in zip(folds, splits, strict=True):
                decided.append(self._decided_by_fold(task, fold, samples, test))
        session.finish(monitor, type(self)._warn)

    def _bounds(self, data: TrainingSet, train: np.ndarray) -> np.ndarray:
        """Return the bounds of multipliers of a fit that sees some samples; 0 for the others."""
        weight = np.zeros(len(data.weight))
        weight[train] = data.weight[train]
        return self._state(data._replace(weight=weight)).upper

    def _decided_by_fold(self, task: KernelFit, fold: KernelFit, samples: Source, test: np.ndarray) -> np.ndarray:
        """Return the decision values of some samples by a fold of the fit whose attributes the model has."""
        scores = task.fold_scores(fold)
        if scores is not None:
            return -scores[test]  # the second class is positive
        model = view_of(self)
        model.__dict__ = vars(self) | self._attributes(fold, samples, self.classes_)
        return model.decision_function(samples.take(test))

    def _warn(self) -> None:
        """Warn if the fit did not converge."""
        warn_of_violation(self)

    def _attributes(self, task: KernelFit, samples: Source, classes: np.ndarray) -> Attributes:
        """Return the fitted attributes of a model that stops now, with support vectors copied from the samples."""
        solution = self._solution(task.outcome(), classes)
        vectors = np.empty((0, 0)) if is_precomputed(self) else samples.as_passed(samples.rows(solution["support_"]))
        return self._with_vectors(solution, vectors, samples.shape) | {"solver_": task.solved_by or self.solver}

    def _with_vectors(self, solution: Attributes, vectors: Samples, shape: tuple[int, int]) -> Attributes:
        """Return the attributes of a solution with its support vectors, for samples of a shape."""
        solution = solution | {"support_vectors_": vectors, "shape_fit_": shape}
        if sparse.issparse(vectors):
            solution["dual_coef_"] = DenseBlock(solution["dual_coef_"]).compressed(np.float64).user_array()
        return solution

    def _solution(self, outcome: Outcome, classes: np.ndarray) -> Attributes:
        """Return the fitted attributes that the solution determines."""
        violation, reason = float(outcome.kkt_violation.max()), outcome.stop_reason
        if reason is StopReason.CONVERGED and violation > self.tol * (1 + ROUNDING):
            reason = StopReason.STALLED
        objective = outcome.objective
        if not SOLVERS[self.solver].is_dual:  # the gap at zero is the primal objective
            objective = np.where(outcome.begun, objective, outcome.duality_gap)
        return self._expansion(outcome, classes) | {
            "objective_": float(objective.sum()),
            "duality_gap_": float(outcome.duality_gap.sum()),
            "kkt_violation_": violation,
            "converged_": reason is StopReason.CONVERGED,
            "stop_reason_": str(reason),
            "passes_": outcome.passes,
            "fit_status_": int(reason is not StopReason.CONVERGED),
        }

    def _expansion(self, outcome: Outcome, classes: np.ndarray) -> Attributes:
        """Return support, coefficients, intercepts and numbers of steps of the one decision function."""
        beta = np.zeros(len(outcome.labels))
        beta[outcome.rows] = outcome.beta
        support = beta.nonzero()[0]
        return {
            "support_": support,
            "n_support_": np.array([len(support)], np.int32),
            "dual_coef_": beta[None, support],
            "intercept_": outcome.intercept,
            "n_iter_": int(outcome.n_steps[0]),
        }

    # --- decision functions ------------------------------------------------------------------------------

    @property
    @of_one_model
    def coef_(self) -> np.ndarray | sparse.csr_matrix:
        """Weights of the features, one row a decision function, read-only; for the linear kernel only."""
        self._check_fitted()
        if not isinstance(resolve_kernel(self), Linear):
            raise AttributeError("coef_ is only available when using a linear kernel")
        vectors = self.support_vectors_
        standardization = Standardization.of_model(self)
        if standardization is not None:
            vectors = standardization.apply(MemorySource.of(vectors)).in_memory().block.user_array()
        weights = self._coefficients()
        if sparse.issparse(vectors):
            weights = sparse.csr_matrix(weights) @ sparse.csr_matrix(vectors)
            weights.data.flags.writeable = False
        else:
            weights = np.asarray(weights @ np.asarray(vectors, np.float64))
            weights.flags.writeable = False  # it is computed at each access, so that a change would do nothing
        return weights

    def _coefficients(self) -> np.ndarray | sparse.csr_matrix:
        """Return the coefficients of the support vectors, a row for each decision function."""
        return to_dense(self.dual_coef_)

    def _layout(self) -> tuple[int, int]:
        """Return the number of rows of `dual_coef_`, and of intercepts."""
        return 1, 1

    def _check_fitted(self) -> None:
        """Raise NotFittedError if there is no model."""
        if "support_" not in vars(self):  # scikit-learn's check asks for tags, a tenth of the prediction of a row
            check_is_fitted(self)

    def _check_unaltered(self) -> None:
        """Raise ValueError if attributes were replaced by some that do not fit: predictions would be wrong."""
        n_vectors = len(self.support_) if is_precomputed(self) else _num_samples(self.support_vectors_)
        n, (n_rows, n_intercepts) = len(self.support_), self._layout()
        shapes = (n_rows, n), (n_intercepts, n)  # the second of a compressed model
        fits = np.shape(self.dual_coef_) in shapes and np.sum(self.n_support_) == n == n_vectors
        if not fits or np.shape(self.intercept_) != (n_intercepts,):
            raise ValueError(
                f"The internal representation of {type(self).__name__} was altered: support_, support_vectors_, "
                "n_support_, dual_coef_ and intercept_ do not fit together. Fit the model again."
            )

    def _expansion_coefficients(self) -> np.ndarray | PairCoefficients:
        """Return the coefficients of the support vectors as predictions sum with them."""
        return self._coefficients().T

    def _decided_by(self, X: Samples, *forms: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        """Return what each function makes of the values of the decision functions, of which it gets some rows."""
        self._check_fitted()
        source = check_rows(self, samples_for(self, X, self.support_vectors_), reset=False)
        # Opening a pool would take as long as a few rows, which are one piece of work, and no product by BLAS.
        is_few = len(source) <= max(_FEW_ROWS, _FEW_VALUES // max(1, len(self.support_)))
        is_brief = is_few and isinstance(self.kernel, str)
        with nullcontext(one_thread()) if is_brief else Pool.open(most=threads_within(self.memory)) as pool:
            predictor = Predictor.of_model(self, source, pool)
            results: list[np.ndarray] = []
            for start, decisions in predictor.decisions(source, self.intercept_, is_checked=not is_stored(X)):
                some = [form(decisions) for form in forms]
                if len(decisions) == len(source):
                    return some
                results = results or [np.empty((len(source), *one.shape[1:]), one.dtype) for one in some]
                for whole, part in zip(results, some, strict=True):
                    whole[start : start + len(part)] = part
            return results
