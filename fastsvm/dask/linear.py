"""Linear support vector classification and regression on a cluster: rounds of dual coordinate ascent on shards."""

from contextlib import closing
from typing import NamedTuple

import numpy as np
from distributed import Future
from scipy import sparse
from sklearn.base import RegressorMixin

from fastsvm.dask.estimator import DecisionMixin, DistributedEstimator, made_from
from fastsvm.dask.rows import ClusterFit, ShardFacts, ShardRows, moments_of_shards
from fastsvm.dask.shards import ClusterShards, Plan, problem_of
from fastsvm.estimators.fitting.progress import EpochMonitor, MonitoredFit
from fastsvm.estimators.fitting.session import warn_of_gap
from fastsvm.estimators.linear import linear_svc, linear_svr
from fastsvm.estimators.linear.base_linear_svm import block_rows_of
from fastsvm.estimators.linear.prediction import for_rows_as_passed
from fastsvm.estimators.linear.training_task import seed_of
from fastsvm.files.storable import storable
from fastsvm.solvers.linear_dual.coordinate_ascent import LinearDualState
from fastsvm.solvers.linear_dual.metric import metric_of_moments
from fastsvm.solvers.linear_dual.problem import LinearSettings
from fastsvm.solvers.linear_dual.shards import RoundsMemory, ShardedAscent
from fastsvm.solvers.outer_loop import Limits, Report, StopReason, drive
from fastsvm.tuning import current_tuning


@storable("linear fit on a cluster")
class ClusterFitState(NamedTuple):
    """Checkpoint of a fit: the rows are not in it."""

    sizes: list[int]  # They are the numbers of rows of the shards.
    seed: int  # It orders the rows.
    state: LinearDualState
    memory: RoundsMemory
    records: list[tuple]  # Each is of a round so far.


class DistributedLinearSVM(DistributedEstimator):
    """A linear machine that learns on the workers of a cluster; its fitted attributes are plain arrays.

    Attributes
    ----------
    kkt_violation_ : float
        Largest projected gradient of the dual problem, in units of scores.
    converged_ : bool
        Whether the duality gap is within `tol`.
    history_ : dict of str to ndarray
        One entry a round: epoch, time (s), objective (the lowest so far), dual_objective, gap (the lowest relative gap
        so far), bytes_sent (what the client told and was told).

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik and Takac (2015), Adding vs. averaging in distributed primal-dual optimization,
    ICML. Smith, Forte, Ma, Takac, Jordan and Jaggi (2018), CoCoA: a general framework for communication-efficient
    distributed optimization, JMLR 18, algorithm 1.
    """

    criterion = "gap"  # as the warning asks
    _warn = staticmethod(warn_of_gap)

    def _learn(self, fit: ClusterFit) -> None:
        self._solve(fit, fit.rows, fit.whole, self._seed(fit), *self._scaling(fit))

    def _seed(self, fit: ClusterFit) -> int:
        """Return what orders the rows."""
        return seed_of(self) if fit.session.resume_from is None else fit.session.resume_from.seed

    def _scaling(self, fit: ClusterFit) -> tuple[np.ndarray, np.ndarray]:
        """Return shift and scale of the features, empty if they are not standardised."""
        self._shift = self._scale = None
        if not self.standardize:
            return np.empty(0), np.empty(0)
        statistics = moments_of_shards(fit)
        self._shift = np.zeros(fit.whole.shape[1]) if fit.whole.sparse else statistics.mean
        self._scale = statistics.scale(fit.whole.shape[0])
        return self._shift, self._scale

    def _show(self, coef: np.ndarray, intercept: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> None:
        """Set weights and intercepts of the scores: of two scores the difference, for rows as they are passed."""
        if len(coef) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        coef, self.intercept_ = for_rows_as_passed(coef, intercept, shift, scale) if scale.size else (coef, intercept)
        self.coef_ = coef if self._local.of_classes else coef[0]

    def _solve(
        self,
        fit: ClusterFit,
        rows: list[Future],
        whole: ShardFacts,
        seed: int,
        shift: np.ndarray,
        scale: np.ndarray,
        of_pairs: bool = False,
    ) -> None:
        """Learn rows in rounds, those of the fit or others in their place with facts `whole`, and set attributes."""
        tuning, last = current_tuning().linear, fit.session.resume_from
        constant = float(self.intercept_scaling) if self.fit_intercept else 0.0
        factors = self._factors(whole) if self._local.of_classes else np.empty(0)
        plan = Plan(
            self._unfitted_local()._chosen_loss(), float(self.C), constant, whole.labels, factors,
            block_rows_of(whole.shape[1], tuning), tuning, fit.tasks.together(len(rows)), shift, scale, of_pairs,
        )  # fmt: skip
        shards = ClusterShards(fit.tasks, rows, plan, fit.sizes)
        solver = _solver(whole, plan, shards, float(self.tol), seed)
        records, state = [], solver.init()
        if last is not None:
            records, state = list(map(tuple, last.records)), solver.adopted(last.state)
            solver.recall(last.memory)
            shards.bytes_sent = records[-1][-1]

        def checkpoint(state: LinearDualState) -> ClusterFitState:
            return ClusterFitState(fit.sizes, seed, state, solver.memory(), records)

        monitor = _RoundMonitor(
            MonitoredFit(fit.session, self.max_iter, dict, checkpoint, state, records), shards, fit.begin
        )
        with closing(monitor):
            limits = Limits(self.max_iter - state.epoch, fit.session.deadline)
            state, reason, _ = drive(solver, state, limits, monitor.observe)
        state, certificate = solver.finish(state)
        reason = StopReason.CONVERGED if solver.is_within(certificate) else reason
        weights = solver.weights(state)
        if self._local.of_classes:
            self.classes_ = whole.labels
        self._show(weights[:, :-1].copy(), constant * weights[:, -1], shift, scale)
        self.n_iter_, self.kkt_violation_ = state.epoch, float(certificate.violation)
        self.objective_, self.dual_objective_ = float(certificate.primal.sum()), float(certificate.dual.sum())
        self.duality_gap_ = max(self.objective_ - self.dual_objective_, 0.0)  # rounding may leave less
        self.converged_, self.stop_reason_ = reason is StopReason.CONVERGED, str(reason)
        self.history_ = monitor.history()


def _solver(whole: ShardFacts, plan: Plan, shards: ClusterShards, tol: float, seed: int) -> ShardedAscent:
    """Return the solver, which knows a problem without rows."""
    shape = 0, whole.shape[1]
    X = sparse.csr_matrix(shape, dtype=whole.dtype) if whole.sparse else np.empty(shape, whole.dtype)
    problem = problem_of(ShardRows(X, np.empty(0, whole.labels.dtype), np.empty(0), None), plan)
    metric = metric_of_moments(problem, shards.moments(ShardedAscent.width_of(whole.shape[1])))
    return ShardedAscent(problem, LinearSettings(tol, seed, plan.block_rows, 0, 1, tuning=plan.tuning), metric, shards)


class _RoundMonitor(EpochMonitor):
    """Records every round of a fit that began at the moment `begin`."""

    COLUMNS = "epoch", "time", "objective", "dual_objective", "gap", "bytes_sent"

    def __init__(self, fit: MonitoredFit, shards: ClusterShards, begin: float) -> None:
        super().__init__(fit)
        self._shards = shards
        self._begin = begin - (fit.records[-1][1] if fit.records else 0.0)
        self._bar.unit = "round"

    def observe(self, state: LinearDualState, report: Report) -> bool:
        """Record a round if one ended, and offer a checkpoint."""
        return super().observe(state, report) if report.n_steps else False

    def row(self, state: LinearDualState, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return primal and dual objective, relative gap and bytes sent."""
        values = float(state.primal.sum()), report.objective, report.gap, self._shards.bytes_sent
        return values, {"gap": f"{report.gap:.2g}"}


# --- the machines ------------------------------------------------------------------------------------------------


@made_from(linear_svc.LinearSVC, {"penalty", "dual", "memory", "warm_start", "criterion", "window_visits", "solver_"})
class LinearSVC(DecisionMixin, DistributedLinearSVM):
    """Linear support vector classification on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss, of each class against the rest or of all at once, as `fastsvm.LinearSVC` does, to the
    same duality gap. The rows are in shards on the workers, and never come to the client. In a round each shard takes
    an epoch of dual coordinate ascent; what it tells of it is two numbers for each feature and class.
    """


@made_from(linear_svr.LinearSVR, {"dual", "memory", "warm_start", "criterion", "window_visits", "solver_"})
class LinearSVR(RegressorMixin, DistributedLinearSVM):
    """Linear support vector regression on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss as `fastsvm.LinearSVR` does, to the same duality gap, in the rounds of
    `fastsvm.dask.LinearSVC`. The rows are in shards on the workers, and never come to the client.
    """

    score = DistributedLinearSVM.score  # not that of the mixin
