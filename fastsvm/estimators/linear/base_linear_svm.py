"""What linear support vector machines have in common."""

from typing import Any

import numpy as np

from fastsvm._compiled.threads import Pool
from fastsvm.estimators.fitting.callbacks import CallbackSupportMixin
from fastsvm.estimators.fitting.checkpoints import begun_before
from fastsvm.estimators.fitting.convergence_warnings import warn_of_gap
from fastsvm.estimators.fitting.parameters import boolean, check_parameters, either, number, one_of, optional
from fastsvm.estimators.linear.dual_fit import DualFit, DualFitState, merged
from fastsvm.estimators.linear.prediction import LinearModel
from fastsvm.estimators.linear.progress import DualAscentMonitor, MonitoredFit
from fastsvm.estimators.linear.training_task import Task, deadline_of, seed_of
from fastsvm.losses import Loss
from fastsvm.memory import parse_memory
from fastsvm.solvers.linear_dual.state import LinearDualState
from fastsvm.solvers.outer_loop import StopReason

__all__ = ["BaseLinearSVM"]

_RULES = {
    "C": number(above=0),
    "dual": either(boolean, one_of("auto")),
    "tol": number(above=0),
    "fit_intercept": boolean,
    "intercept_scaling": number(),
    "verbose": either(boolean, number(integral=True, least=0)),
    "max_iter": number(integral=True, least=1),
    "max_time": optional(number(above=0)),
    "warm_start": boolean,
    "standardize": boolean,
    "criterion": one_of("gap", "gradient"),
    "window_visits": either(one_of("auto"), number(integral=True, least=1)),
}


class BaseLinearSVM(CallbackSupportMixin, LinearModel):
    """What classification and regression have in common."""

    def _check_parameters(self) -> None:
        check_parameters(self, _RULES | self._own_rules())
        parse_memory(self.memory)
        if self.fit_intercept and self.intercept_scaling <= 0:
            raise ValueError(
                f"Intercept scaling is {self.intercept_scaling!r} but needs to be greater than 0. To disable fitting "
                "an intercept, set fit_intercept=False."
            )

    def _fit(self, task: Task, loss: Loss, names: dict[str, Any]) -> None:
        """Ascend to the end; `names` are fitted attributes beside those of the ascent."""
        deadline = deadline_of(self)
        kept = begun_before(self, "_kept")
        context = self._init_callback_context(max_subtasks=self.max_iter) if hasattr(self, "_skl_callbacks") else None
        if context is not None:
            context.call_on_fit_task_begin(estimator=self)
        with Pool.open() as pool:
            ascent = DualFit(self, merged(task), loss, pool, seed_of(self) if kept is None else kept.seed)
            solver, state = ascent.solver, ascent.begin(kept)
            records = kept.records if kept is not None and state.epoch > 0 else []

            def attributes(state: LinearDualState) -> dict[str, Any]:
                return names | self._weights(solver.finish(state), state)

            def kept_of(state: LinearDualState, over: bool = False, whole: bool = True) -> DualFitState:
                return DualFitState(ascent.mark, ascent.settings.seed, state, ascent.windows, over, whole, records)

            watched = MonitoredFit(self, context, self.max_iter, attributes, state, records, kept_of)
            watch = DualAscentMonitor(watched, solver.problem.source)
            over = whole = False
            try:
                state, reason = ascent.run(state, self.max_iter, deadline, watch)
                whole = True
                over = reason not in (StopReason.MAX_TIME, StopReason.CALLBACK, StopReason.MAX_ITER)
            finally:  # after an interrupt too
                self._kept = kept_of(watch.state, over, whole) if self.warm_start else None
            found = solver.certificate
            if reason is not StopReason.CONVERGED:
                state, found = solver.concluded(state)
            if solver.is_within(found):
                reason = StopReason.CONVERGED
            vars(self).update(attributes(state))
        self.objective_, self.dual_objective_ = float(found.primal.sum()), float(found.dual.sum())
        self.duality_gap_ = self.objective_ - self.dual_objective_
        self.kkt_violation_ = float(found.violation)
        self.converged_, self.stop_reason_ = reason is StopReason.CONVERGED, str(reason)
        self.history_ = watch.history()
        if context is not None:
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes=dict)
        warn_of_gap(self)

    def _weights(self, weights: np.ndarray, state: LinearDualState) -> dict[str, Any]:
        """Return the fitted attributes of weights."""
        if self._shows_difference(len(weights)):
            weights = np.diff(weights, axis=0)
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        coef, intercept = self._for_rows_as_passed(weights[:, :-1], scaling * weights[:, -1])
        return self._shaped(np.ascontiguousarray(coef), intercept) | {"n_iter_": state.epoch}

    def _shows_difference(self, n_scores: int) -> bool:
        """Return whether there are two scores of which the difference is shown."""
        return n_scores == 2
