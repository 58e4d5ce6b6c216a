"""Linear support vector classification and regression on a cluster: rounds of dual coordinate ascent on shards."""

from typing import NamedTuple

import numpy as np
from distributed import Future
from scipy import sparse
from sklearn.base import RegressorMixin

from fastsvm.dask.estimator import ClusterFit, DecisionMixin, DistributedEstimator, made_from
from fastsvm.dask.rows import moments_of_shards, scaling_of
from fastsvm.dask.shards import ClusterShards
from fastsvm.dask.tasks import Tasks
from fastsvm.dask.worker import Plan, ShardFacts, ShardRows, problem_of
from fastsvm.estimators.fitting.progress import EpochMonitor, MonitoredFit
from fastsvm.estimators.fitting.session import FitSession, warn_of_gap
from fastsvm.estimators.fitting.validation import class_weights
from fastsvm.estimators.linear import linear_svc, linear_svr
from fastsvm.estimators.linear.base_linear_svm import block_rows_of
from fastsvm.estimators.linear.prediction import for_rows_as_passed
from fastsvm.estimators.linear.training_task import seed_of
from fastsvm.files.storable import storable
from fastsvm.losses import Loss
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

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, "coef_")

    def _learn(self, fit: ClusterFit) -> None:
        loss, last, tasks = self._unfitted_local()._chosen_loss(), fit.session.resume_from, fit.tasks
        seed = seed_of(self) if last is None else last.seed
        rows, whole = self._learnt(tasks, fit.rows, fit.facts, fit.whole, seed)
        names, plan = self._planned(whole, loss, self._local.of_classes, tasks.together(len(rows)))
        shift, scale = self._scaling(tasks, rows, whole)
        plan = plan._replace(shift=shift, scale=scale)
        shards = ClusterShards(tasks, rows, plan, fit.sizes)
        solver = _solver(whole, plan, shards, float(self.tol), seed)
        weights = self._solve(solver, shards, fit.session, fit.begin)
        self.__dict__.update(names)
        self._conclude(tasks, plan, solver, weights, fit.session.deadline)

    def _scaling(self, tasks: Tasks, rows: list[Future], whole: ShardFacts) -> tuple[np.ndarray, np.ndarray]:
        """Return shift and scale of the features, empty if they are not standardised."""
        self._shift = self._scale = None
        if not self.standardize:
            return np.empty(0), np.empty(0)
        self._shift, self._scale = scaling_of(moments_of_shards(tasks, rows), whole.sparse)
        return self._shift, self._scale

    def _shown(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores' weights as they are shown: of two scores the difference, for rows as they are passed."""
        if len(coef) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        return self._for_rows_as_passed(coef, intercept)

    def _learns_pairs(self, n_classes: int) -> bool:
        """Return whether each pair of so many classes is told apart."""
        return False

    def _for_rows_as_passed(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and intercepts for rows as they are passed."""
        return for_rows_as_passed(coef, intercept, self._shift, self._scale)

    def _learnt(
        self, tasks: Tasks, rows: list[Future], facts: list[ShardFacts], whole: ShardFacts, seed: int
    ) -> tuple[list[Future], ShardFacts]:
        """Return the rows that are learnt, here those of the user, and what they are like."""
        return rows, whole

    def _planned(self, whole: ShardFacts, loss: Loss, of_classes: bool, together: int) -> tuple[dict, Plan]:
        """Return fitted attributes beside those of the solution, and what is to be learnt."""
        constant = float(self.intercept_scaling) if self.fit_intercept else 0.0
        classes = factors = np.empty(0)
        if of_classes:
            classes = whole.labels
            factors = class_weights(self.class_weight, classes, np.arange(len(classes)), whole.weights)
        tuning = current_tuning().linear
        size = block_rows_of(whole.shape[1], tuning)
        plan = Plan(loss, float(self.C), constant, classes, factors, size, tuning, together)
        plan = plan._replace(of_pairs=self._learns_pairs(len(classes)))
        return ({"classes_": classes} if of_classes else {}), plan

    def _conclude(self, tasks: Tasks, plan: Plan, solver: ShardedAscent, weights: np.ndarray, deadline: float) -> None:
        """Take the weights at the end of a fit; here for nothing."""

    def _solve(self, solver: ShardedAscent, shards: ClusterShards, session: FitSession, begin: float) -> np.ndarray:
        """Take rounds, set the attributes of the solution and its certificate, and return the weights."""
        last, records, state = session.resume_from, [], solver.init()
        if last is not None:
            records, state = list(map(tuple, last.records)), solver.adopted(last.state)
            solver.recall(last.memory)
            shards.bytes_sent = records[-1][-1]

        def checkpoint(state: LinearDualState) -> ClusterFitState:
            return ClusterFitState(shards.sizes, solver.settings.seed, state, solver.memory(), records)

        monitor = _RoundMonitor(MonitoredFit(session, self.max_iter, dict, checkpoint, state, records), shards, begin)
        try:
            state, reason, _ = drive(
                solver, state, Limits(self.max_iter - state.epoch, session.deadline), monitor.observe
            )
        finally:
            monitor.close()
        state, certificate = solver.finish(state)
        reason = StopReason.CONVERGED if solver.is_within(certificate) else reason
        weights = solver.weights(state)
        scaling = self.intercept_scaling if self.fit_intercept else 0.0
        self._take(*self._shown(weights[:, :-1].copy(), scaling * weights[:, -1]))
        self.n_iter_, self.kkt_violation_ = state.epoch, float(certificate.violation)
        self.objective_, self.dual_objective_ = float(certificate.primal.sum()), float(certificate.dual.sum())
        self.duality_gap_ = self.objective_ - self.dual_objective_
        self.converged_, self.stop_reason_ = reason is StopReason.CONVERGED, str(reason)
        self.history_ = monitor.history()
        return weights


class DistributedClassifier(DecisionMixin, DistributedLinearSVM):
    """A linear classifier that learns on the workers of a cluster."""

    def _take(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, intercept


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
class LinearSVC(DistributedClassifier):
    """Linear support vector classification on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss, of each class against the rest or of all at once, as `fastsvm.LinearSVC` does, to the
    same duality gap. The rows are in shards on the workers, and never come to the client. In a round each shard takes
    an epoch of dual coordinate ascent; what it tells of it is two numbers for each feature and class.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from fastsvm.dask import LinearSVC
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> X = da.from_array(rng.normal(size=(200, 3)) + y[:, None], chunks=(100, 3))
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = LinearSVC(random_state=0).fit(X, da.from_array(y, chunks=100))
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    >>> model.to_local().predict([[2.0, 2.0, 2.0]])
    array([1])
    """


@made_from(linear_svr.LinearSVR, {"dual", "memory", "warm_start", "criterion", "window_visits", "solver_"})
class LinearSVR(RegressorMixin, DistributedLinearSVM):
    """Linear support vector regression on the workers of a Dask cluster, exact.

    Minimises ½‖w‖² + C Σ loss as `fastsvm.LinearSVR` does, to the same duality gap, in the rounds of
    `fastsvm.dask.LinearSVC`. The rows are in shards on the workers, and never come to the client.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from fastsvm.dask import LinearSVR
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> rows = da.from_array(X, chunks=(100, 1))
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
    ...     model = LinearSVR(C=10, random_state=0).fit(rows, 3 * X[:, 0] - 1)
    >>> bool(model.to_local().score(X, 3 * X[:, 0] - 1) > 0.99)
    True
    """

    score = DistributedLinearSVM.score  # not that of the mixin

    def _take(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef[0], intercept
