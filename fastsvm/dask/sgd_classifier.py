"""Linear classification by gradient descent on a cluster, whose shards average their weights."""

import time
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fastsvm._compiled.threads import Pool
from fastsvm.dask.estimator import DecisionMixin, made_from
from fastsvm.dask.linear import DistributedLinearSVM
from fastsvm.dask.rows import ClusterFit, ShardRows
from fastsvm.dask.shards import task_of_labels
from fastsvm.dask.tasks import Result, counting, threads_of
from fastsvm.estimators.fitting.session import warn_of_sgd
from fastsvm.estimators.linear import sgd_classifier
from fastsvm.estimators.linear.prediction import scaled_type
from fastsvm.estimators.linear.sgd_fit import solver_of
from fastsvm.files.storable import storable
from fastsvm.progress_bar import Bar, progress_bar
from fastsvm.solvers.outer_loop import Limits, StopReason, drive
from fastsvm.solvers.sgd.problem import LinearFunction, SGDState
from fastsvm.solvers.sgd.solver import SGD, has_settled
from fastsvm.sources import MemorySource, ScaledSource, Source

_COLUMNS = "epoch", "time", "objective", "bytes_sent"
_FIRST = 4  # The objective is first examined after so many rounds.


class _Plan(NamedTuple):
    """What is to be learnt from all shards: `shift` and `scale` are as in `shards.Plan`."""

    estimator: BaseEstimator  # It has the parameters, and is not fitted.
    seed: int  # It orders the rows.
    classes: np.ndarray
    factors: np.ndarray  # They multiply the weights of the rows of each class.
    together: int  # So many shards share the threads of a worker.
    shift: np.ndarray
    scale: np.ndarray


@storable("averaged weights")
class _Averages(NamedTuple):
    """The weights after the last step, and their average over the steps; of a shard, or averaged over all."""

    last: LinearFunction
    mean: LinearFunction


@storable("descent of a shard")
class _Descent(NamedTuple):
    """State of a shard after a round, what the client is told, and the number of steps so far."""

    state: SGDState
    averages: _Averages
    n_steps: int


@storable("gradient descent on a cluster")
class DescentProgress(NamedTuple):
    """What a fit has between two rounds, and its checkpoint: the rows are not in it."""

    sizes: list[int]  # They are the numbers of rows of the shards.
    seed: int  # It orders the rows.
    n_rounds: int = 0
    sent: int = 0  # So many bytes were sent.
    due: int = _FIRST  # The objective is examined next in this round.
    before: float = np.inf  # It is the objective when it was examined last.
    # They are None before the first round, and one of a shard without weight is None.
    shards: list[_Descent | None] | None = None
    common: _Averages | None = None  # They are averages over the shards.
    records: list[tuple] | None = None  # Each is of an examined round.


_WITHOUT = {
    "shuffle", "n_jobs", "early_stopping", "validation_fraction", "n_iter_no_change", "warm_start", "momentum",
    "clip_norm", "memory", "kkt_violation_",
}  # fmt: skip


@made_from(sgd_classifier.SGDClassifier, _WITHOUT)
class SGDClassifier(DecisionMixin, DistributedLinearSVM):
    """Linear classification by mini-batch stochastic gradient descent on the workers of a Dask cluster.

    In a round each shard takes an epoch of `fastsvm.SGDClassifier` from the common weights. Then the weights and their
    averages over the steps are averaged over the shards, each by the weight of its rows.

    What is lost: within a round no shard sees the steps of the others. K shards take as many steps in the time of one,
    but the mean of their weights is hardly nearer to the optimum than each of them, only less noisy. So a round gains
    less than an epoch on one machine, and shards that are unlike each other need many. There is no duality gap. Where
    the optimum matters, take `LinearSVC`.

    Parameters
    ----------
    tol : float or None, default=1e-3
        The fit ends when the objective of the averaged weights over all rows fell by at most `tol` a round, or ten
        times `tol` in all, while the number of rounds doubled, in units of the objective of the best constant. None
        takes `max_iter` rounds.
    random_state : int, RandomState or None, default=None
        Seed of the order of the samples.
    learning_rate : {"adagrad", "auto", "optimal", "pegasos", "invscaling", "constant", "adaptive"}, default="adagrad"
        Length of a step, as of `fastsvm.SGDClassifier`. Each shard adapts it by its own gradients.
    class_weight : dict, "balanced" or None, default=None
        Factors of the rows' weights for each class, by the rows of all shards.

    Attributes
    ----------
    t_ : float
        Steps of the shard with the most of them, plus one.
    converged_ : bool
        Whether the fit converged, or took all rounds with `tol=None`.
    stop_reason_ : str
        "converged", "max_iter" or "max_time".
    history_ : dict of str to ndarray
        One entry for each examined round: epoch, time (s), objective, bytes_sent (what the client told and was told).

    References
    ----------
    Zinkevich, Weimer, Smola and Li (2010), Parallelized stochastic gradient descent, NIPS. Stich (2019), Local SGD
    converges fast and communicates little, ICLR.
    """

    _warn = staticmethod(warn_of_sgd)

    def _learn(self, fit: ClusterFit) -> None:
        whole, last, seed = fit.whole, fit.session.resume_from, self._seed(fit)
        shift, scale = self._scaling(fit)
        estimator = self._unfitted_local().set_params(tol=None, random_state=None)
        together = fit.tasks.together(len(fit.rows))
        plan = _Plan(estimator, seed, whole.labels, self._factors(whole), together, shift, scale)
        start = DescentProgress(fit.sizes, seed) if last is None else last
        with progress_bar(shown=self.verbose, total=self.max_iter, unit="round", desc=type(self).__name__) as bar:
            weights = self._descend(fit, plan, start, bar)
        self.classes_ = whole.labels
        self._show(*weights, shift, scale)

    def _descend(self, fit: ClusterFit, plan: _Plan, start: DescentProgress, bar: Bar) -> LinearFunction:
        """Take rounds, set the attributes of the fit and return the weights."""
        tasks, checkpointer, begin = fit.tasks, fit.session.checkpointer, fit.begin
        used = [k for k, one in enumerate(fit.facts) if one.total > 0]
        rows, shares = [fit.rows[k] for k in used], [fit.facts[k].total / fit.whole.total for k in used]
        now, records = start, [tuple(record) for record in start.records or ()]
        shared, last = tasks.share("plan", plan), start.shards or [None] * len(fit.rows)
        states: list[Result] = [None if last[k] is None else tasks.share(f"kept-{k}", last[k]) for k in used]
        reason, objective = StopReason.MAX_ITER, start.before
        begin -= records[-1][1] if records else 0.0

        def checkpoint() -> DescentProgress:
            """Return a checkpoint with the states that the workers hold."""
            held = dict(zip(used, tasks.gathered(states), strict=True))
            return now._replace(shards=[held.get(k) for k in range(len(fit.rows))], records=list(records))

        while now.n_rounds < self.max_iter:
            common = tasks.share(f"order-{now.n_rounds}", now.common)
            states = tasks.each(f"round-{now.n_rounds}", _descend_shard, rows, shared, used, states, common)
            told = attrgetter("averages", "n_steps")
            sums = tasks.gathered(tasks.each(f"sums-{now.n_rounds}", told, states))
            averages, n_rounds = _averaged(sums, shares), now.n_rounds + 1
            self.t_ = 1.0 + max(n_steps for _, n_steps in sums)
            sent = now.sent + sum(array.nbytes for linear in averages for array in linear) * (2 * len(rows) + 1)
            now = now._replace(n_rounds=n_rounds, sent=sent, common=averages)
            bar.update(1)
            late = time.perf_counter() > fit.session.deadline
            if late or n_rounds >= min(now.due, self.max_iter):
                mean = tasks.share(f"mean-{n_rounds}", averages.mean)
                parts = tasks.gathered(tasks.each(f"objectives-{n_rounds}", _objectives_of_shard, rows, shared, mean))
                objective, unit = (float(np.dot(shares, column)) for column in zip(*parts, strict=True))
                records.append((n_rounds, time.perf_counter() - begin, objective, sent))
                if self.tol is not None and has_settled(now.before - objective, self.tol * unit, n_rounds):
                    reason = StopReason.CONVERGED
                elif late:
                    reason = StopReason.MAX_TIME
                if late or reason is StopReason.CONVERGED:
                    break
                now = now._replace(due=2 * now.due, before=objective)
            if checkpointer is not None and n_rounds < self.max_iter:
                facts = dict(zip(_COLUMNS, (n_rounds, time.perf_counter() - begin, objective, sent), strict=True))
                checkpointer.observe(checkpoint, facts)
        self.n_iter_, self.objective_, self.stop_reason_ = now.n_rounds, objective, str(reason)
        self.converged_ = reason is StopReason.CONVERGED or (self.tol is None and reason is StopReason.MAX_ITER)
        self.history_ = {
            name: np.array(column) for name, column in zip(_COLUMNS, zip(*records, strict=True), strict=True)
        }
        assert now.common is not None
        return now.common.mean


def _averaged(sums: list[tuple[_Averages, int]], shares: list[float]) -> _Averages:
    """Return the averages of the weights of all shards, by the weights of their rows."""
    means = []
    for parts in zip(*(averages for averages, _ in sums), strict=True):
        arrays = [[share * array for array in part] for part, share in zip(parts, shares, strict=True)]
        means.append(LinearFunction(*(np.add.reduce(each) for each in zip(*arrays, strict=True))))
    return _Averages(*means)


# --- what workers do -------------------------------------------------------------------------------------


def _solver(rows: ShardRows, plan: _Plan, number: int, pool: Pool) -> SGD:
    """Return the solver of a shard."""
    source: Source = MemorySource.of(rows.X)
    if plan.scale.size:
        source = ScaledSource(source, None if source.sparse else plan.shift, plan.scale, scaled_type(source))
    coupled = plan.estimator._chosen_loss().of_classes
    task = task_of_labels(source, rows, plan.classes, plan.factors, coupled)
    return solver_of(plan.estimator, task, pool, plan.seed + number)


def _descend_shard(
    rows: ShardRows, plan: _Plan, number: int, last: _Descent | None, common: _Averages | None
) -> _Descent:
    """Return a shard after one more epoch, from the common weights, but with the rates and steps of its own."""
    with Pool.open(threads_of(plan.together)) as pool, counting("computing"):
        solver = _solver(rows, plan, number, pool)
        state = solver.init()
        if last is not None and common is not None:
            state = solver.with_weights(last.state, *common)
        try:
            state, _, _ = drive(solver, state, Limits(1, np.inf), lambda state, report: False)
        finally:
            solver.close()
    return _Descent(state, _Averages(state.model.last(), solver.answer(state)), state.n_steps)


def _objectives_of_shard(rows: ShardRows, plan: _Plan, weights: LinearFunction) -> tuple[float, float]:
    """Return the objectives of a shard, of some weights and of zero weights, as the solver sees it."""
    with Pool.open(threads_of(plan.together)) as pool, counting("computing"):
        solver = _solver(rows, plan, 0, pool)
        return solver.objective(weights, exact=True), solver.unit
