"""Which solver fits which problem: one table a family, from facts to solvers.

The solvers of a problem are tried in the order of the table. One that does not come within the tolerance, as where
rounding errors hide the way, leaves the problem to the next. A fitted model says in `solver_` which one solved it.
Facts never say where samples are stored, only whether memory holds them: the same rows from an array and from a file
are learnt alike.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fastsvm.kernel_matrix.accurate_sums import CACHED_VALUES
from fastsvm.kernel_matrix.rows_on_demand import PADDING
from fastsvm.losses import Loss, is_piecewise, provides_newton
from fastsvm.tuning import KernelTuning, LinearTuning


class LinearFacts(NamedTuple):
    """What decides how a linear machine is learnt."""

    n_samples: int
    n_weights: int  # A score has so many, that of the constant feature included.
    mean_values: float  # A feature has so many stored values in the mean, `n_samples` if rows are dense.
    resident: bool  # Memory holds the rows.
    sparse: bool
    loss: Loss
    l1: bool = False  # ‖w‖₁ is penalised.
    one_class: bool = False  # The sum of the dual variables is given.
    by_gap: bool = True  # The tolerance bounds the duality gap, not the violation of the optimality conditions.
    is_watched: bool = False  # Steps are to be seen: by callbacks, in checkpoints, or because few are allowed.
    n_scores: int = 1  # So many scores are learnt.
    of_splits: bool = False  # Each class is learnt on several parts of the samples.
    fits_gram: bool = False  # Memory holds the Gram matrix of the samples, and no limit of time is set.

    @property
    def piecewise(self) -> bool:
        """Whether the loss is piecewise quadratic or linear, so that a coordinate's best step has a closed form."""
        return is_piecewise(type(self.loss))

    @property
    def n_values(self) -> int:
        """Values of the table, zeros included."""
        return self.n_samples * self.n_weights

    @property
    def is_plain(self) -> bool:
        """Whether ½‖w‖² is penalised, and the dual variables have no given sum."""
        return not (self.l1 or self.one_class)

    @property
    def at_once(self) -> bool:
        """Whether one step may solve the problem, out of sight."""
        return self.is_plain and self.resident and not self.loss.of_classes and not self.is_watched

    def is_few(self, tuning: LinearTuning) -> bool:
        """Return whether the table is so small that Newton steps on it cost less than epochs, in all scores."""
        is_short = min(self.n_samples, self.n_weights) <= tuning.most_on_shorter_side
        by_epochs = self.n_scores > 1 and self.by_gap and _rounds(self, tuning)
        is_small = not by_epochs or self.n_values * self.n_scores <= tuning.small_values
        return is_short and is_small and self.n_values <= tuning.most_values


class LinearSolver(NamedTuple):
    """A row of the table."""

    name: str  # `solver_` says it.
    what: str  # The solver does this.
    n_copies: int  # It has so many arrays of the shape of the weights at once.
    applies: Callable[[LinearFacts, LinearTuning], bool]  # It says whether the solver is tried.
    merges: bool = True  # Equal rows in memory are merged before.


def _gram(facts: LinearFacts, tuning: LinearTuning) -> bool:
    is_wide = facts.n_samples < facts.n_weights and facts.n_samples <= tuning.most_gram_samples
    is_shared = facts.n_values > tuning.small_values and facts.n_samples <= tuning.samples_of_score * facts.n_scores
    is_fast = is_shared or not (facts.sparse and facts.by_gap)  # else others come to a gap in less time
    is_worth = facts.is_few(tuning) or (facts.fits_gram and facts.piecewise and is_fast)
    return tuning.gram and facts.at_once and is_wide and is_worth


def _weights(facts: LinearFacts, tuning: LinearTuning) -> bool:
    is_left = facts.n_weights <= tuning.hessian_features + 1 or not _gram(facts, tuning)  # squares may hide features
    is_ours = tuning.weights and facts.at_once and facts.is_few(tuning) and is_left
    return is_ours and not (facts.n_values > tuning.small_values and _newton(facts, tuning))


def _newton(facts: LinearFacts, tuning: LinearTuning) -> bool:
    if facts.l1:
        return True
    is_able = tuning.newton and facts.is_plain and facts.resident and provides_newton(type(facts.loss))
    most = tuning.shared_features if facts.of_splits else tuning.hessian_features
    is_table = facts.n_weights <= most + 1 and facts.n_values > tuning.small_values
    is_short = facts.n_weights <= min(facts.n_samples, tuning.hessian_features + 1)
    is_able = is_able and (tuning.conjugate_gradients or is_short)
    return is_able and not _rounds(facts, tuning) and (not facts.piecewise or (is_table and facts.by_gap))


def _rounds(facts: LinearFacts, tuning: LinearTuning) -> bool:
    is_able = tuning.rounds and facts.is_plain and facts.sparse and facts.resident and not facts.loss.of_classes
    is_narrow = facts.n_weights <= tuning.hessian_features + 1 and provides_newton(type(facts.loss))
    is_brief = facts.by_gap and not is_narrow and facts.mean_values * facts.n_weights <= tuning.most_values
    of_piecewise = tuning.values_of_brief if is_brief else tuning.values_of_feature
    return is_able and facts.mean_values <= (of_piecewise if facts.piecewise else tuning.values_of_smooth)


def _ascent(facts: LinearFacts, tuning: LinearTuning) -> bool:
    is_left = facts.piecewise or not _newton(facts, tuning)  # a smooth loss is one for Newton's method, if it may be
    return facts.is_plain and is_left and not _rounds(facts, tuning)


LINEAR_SOLVERS = (
    LinearSolver("gram", "Newton steps on the Cholesky factor of few samples' Gram matrix", 3, _gram, merges=False),
    LinearSolver("weights", "Epochs and Newton steps on the weights of a small table", 3, _weights, merges=False),
    LinearSolver("newton", "Proximal Newton steps on the weights, with all threads", 8, _newton, merges=False),
    LinearSolver("rounds", "Rounds of dual coordinate ascent over sparse rows with rare features", 6, _rounds),
    LinearSolver("ascent", "Dual coordinate ascent with a proximal term, also over rows on disk", 6, _ascent),
    LinearSolver("given-sum", "Rounds of pairs and Newton steps, for one class", 8, lambda facts, _: facts.one_class),
)
"""Solvers of linear machines, in the order in which they are tried."""


def linear_solvers(facts: LinearFacts, tuning: LinearTuning) -> Iterator[LinearSolver]:
    """Yield the solvers that are tried, in this order; most often the first one solves the problem."""
    return (solver for solver in LINEAR_SOLVERS if solver.applies(facts, tuning))


# --- kernel machines -------------------------------------------------------------------------------------


_SHARED_FEATURES = 64  # Kernel values of more features than these are computed once for all problems.


class KernelFacts(NamedTuple):
    """What decides how the problems of a kernel machine are solved by steps of two multipliers."""

    longest: int  # The largest problem has so many samples.
    n_problems: int
    n_samples: int  # These are the samples of all problems.
    n_features: int
    multipliers_per_sample: int  # A sample has 1 or 2 multipliers.
    ns_of_value: float  # A kernel value that is computed with many others takes so many nanoseconds.
    is_exact: bool  # Kernel values are float64, of samples in memory.
    on_demand: bool  # Compiled code computes rows of the kernel from such samples one by one.
    memory: int  # Kernel values and copies of samples may take so many bytes.
    n_threads: int  # So many threads solve problems at once.


class KernelSolver(NamedTuple):
    """A row of the table; see `LinearSolver`."""

    name: str
    what: str
    applies: Callable[[KernelFacts, KernelTuning], bool]


def _is_small(facts: KernelFacts, tuning: KernelTuning, n_values: int) -> bool:
    """Return whether problems are small, and memory holds so many values for them."""
    n_rows = facts.longest * facts.multipliers_per_sample
    n_kept = facts.n_threads * facts.longest * (n_rows + PADDING)  # by the problems that are solved at once
    return tuning.small and facts.is_exact and n_rows <= tuning.few_rows and 8 * (n_kept + n_values) <= facts.memory


def _small_rows(facts: KernelFacts, tuning: KernelTuning) -> bool:
    is_near = facts.longest * facts.n_features <= CACHED_VALUES  # else the whole matrix takes less time
    if facts.n_problems > 1 and facts.n_features > _SHARED_FEATURES and _small_matrix(facts, tuning):
        return False  # Each problem of a class would compute its values anew.
    return is_near and facts.on_demand and _is_small(facts, tuning, facts.n_samples * facts.n_features)


def _small_matrix(facts: KernelFacts, tuning: KernelTuning) -> bool:
    n_values = facts.n_samples**2
    is_fast = facts.n_problems == 1 or n_values * (1 + facts.ns_of_value) <= tuning.call_ns * facts.n_problems
    return is_fast and _is_small(facts, tuning, n_values)


KERNEL_SOLVERS = (
    KernelSolver("small-rows", "Whole problems in compiled calls, with kernel rows on demand", _small_rows),
    KernelSolver("small-matrix", "Whole problems in compiled calls, on one kernel matrix", _small_matrix),
    KernelSolver("smo", "Working sets, with cached, shared or recomputed kernel rows", lambda facts, _: True),
)
"""Solvers by steps of two multipliers, in the order in which they are tried. Other steps take working sets."""


def kernel_solver(facts: KernelFacts, tuning: KernelTuning) -> str:
    """Return the name of the first solver that applies. It leaves problems that take too many steps to working sets."""
    return next(solver.name for solver in KERNEL_SOLVERS if solver.applies(facts, tuning))
