"""Steps in the variables of a row, against what conjugate functions are by definition."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from fastsvm._compiled.compiler import jit
from fastsvm.losses import (
    LOSSES,
    Demands,
    RowAt,
    conjugate,
    coordinate_update,
    dual_losses,
    feasible,
    is_piecewise,
    least_curvature,
    loss_names,
    loss_value,
    primal_losses,
    update_of_classes,
    violation_of,
)

NAMES = loss_names("labels", "numbers", "classes", dual=True)
TOGETHER = [name for name in NAMES if LOSSES[name].of_classes]
PIECEWISE = [name for name in NAMES if is_piecewise(LOSSES[name])]
LABELS = loss_names("labels", dual=True)
EPSILON = 0.3


def made(name):
    return LOSSES[name](EPSILON) if "epsilon" in name else LOSSES[name]()


@jit
def step_of_classes(loss, demands, at, curvature, changes, gaps):
    return update_of_classes(loss, demands, at, curvature, changes, gaps)


@jit
def step_of_one_score(loss, demands, at, curvature, changes, gaps):
    """Do the same as the compiled loops over rows do for a loss of one score."""
    dual, row, scores, place = at
    own, score, target, cost = float(dual[row, 0]), scores[0, place], demands.targets[row], demands.costs[row]
    gaps[0] = cost * loss_value(loss, score, target) + conjugate(loss, own, target, cost) + own * score
    new = coordinate_update(loss, own, score, target, cost, least_curvature(curvature[0]))
    changes[0] = changes.dtype.type(new) - dual[row, 0]
    return changes[0] != 0


@jit
def updates_of_log(log_loss, own, scores, costs, curvatures):
    found = np.empty(own.size)
    for i in range(own.size):
        found[i] = coordinate_update(log_loss, own[i], scores[i], 1.0, costs[i], curvatures[i])
    return found


class Row:
    """A row, one of three, with feasible variables; numbers are round so that there are ties and zeros."""

    def __init__(self, name, seed, real=np.float64):
        rng = np.random.default_rng(seed)
        self.name, self.loss = name, made(name)
        self.k = int(rng.choice([2, 3, 3, 4, 7])) if name in TOGETHER else 1
        self.cost = float(rng.choice([1e-3, 0.5, 1.0, 10.0, 1e4, rng.exponential()]))
        self.target = self._target(rng)
        targets, costs = np.array([0.0, self.target, 1.0]), np.array([2.0, self.cost, 0.5])
        self.demands = Demands(targets, costs, np.ones(self.k))
        rounded = rng.random() < 0.5
        draw = rng.normal(size=(3, self.k)) * self.cost
        draw = np.round(draw / self.cost) * self.cost if rounded else draw
        self.dual = np.ascontiguousarray(feasible(self.loss, self.demands, draw), real)
        scores = rng.normal(size=self.k) * rng.choice([0.1, 1.0, 30.0])
        self.scores = np.round(scores) if rounded else scores
        self.curvature = float(rng.choice([1e-8, 1e-2, 1.0, 100.0, rng.exponential()]))

    def _target(self, rng):
        if self.k > 1:
            return float(rng.integers(self.k))
        return float(np.round(rng.normal(), 1)) if "epsilon" in self.name else float(rng.choice([-1.0, 1.0]))

    @property
    def beta(self):
        return self.dual[1].astype(float)

    def step(self):
        """Take the step of the row; return whether there was any, and the gap it found."""
        changes, gaps = np.empty(self.k, self.dual.dtype), np.zeros(self.k)
        curvature = np.full(self.k, self.curvature)
        step = step_of_classes if self.loss.of_classes else step_of_one_score
        moved = step(self.loss, self.demands, RowAt(self.dual, 1, self.scores[:, None], 0), curvature, changes, gaps)
        before = self.beta
        self.dual[1] += changes
        self.scores = self.scores + self.curvature * (self.beta - before)
        return moved, gaps.sum()

    def gap(self, slack=1e-12):
        return naive.dual_gap_of_row(self.name, self.scores, self.beta, self.target, self.cost, EPSILON, slack)

    def scale(self):
        """Return the size of the numbers of which a gap is the difference."""
        sizes = 1 + np.abs(self.scores) + self.curvature * np.abs(self.beta).max()
        return self.cost * sizes.max() + np.abs(self.beta) @ sizes

    def violation(self):
        """Return how fast the dual objective can grow at most, by a small change in each direction there is."""

        def objective(beta):
            value = naive.conjugate(self.name, beta, self.target, self.cost, EPSILON)
            return -value - beta @ self.scores

        unit = np.eye(self.k)
        if self.name == "crammer_singer":
            directions = [a - b for a in unit for b in unit]
        elif self.name == "weston_watkins":
            directions = [sign * (unit[int(self.target)] - b) for b in unit for sign in (1, -1)]
        else:
            directions = [unit[0], -unit[0]]
        small = 1e-6 * self.cost
        return max(0.0, *((objective(self.beta + small * u) - objective(self.beta)) / small for u in directions))

    def computed_violation(self):
        return violation_of(self.loss, self.demands, 1, self.dual, self.scores[:, None])


SEEDS = st.integers(0, 10**6)


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_no_feasible_variables_say_more_than_the_loss(name, seed):
    row = Row(name, seed)
    assert row.gap() >= -1e-12 * row.scale()


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_after_a_step_nothing_is_left_to_gain(name, seed):
    row = Row(name, seed)
    before, (moved, found) = row.gap(), row.step()
    assert found == pytest.approx(before, abs=1e-12 * row.scale())
    assert abs(row.gap()) <= 1e-12 * row.scale()
    assert moved or before <= 1e-12 * row.scale()


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_a_step_in_single_precision(name, seed):
    row = Row(name, seed, np.float32)
    row.step()
    assert abs(row.gap(slack=1e-6)) <= 3e-6 * row.scale()


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_a_row_of_zeros(name, seed):
    row = Row(name, seed)
    row.curvature = 0.0
    row.step()
    assert abs(row.gap()) <= 1e-12 * row.scale()


@pytest.mark.parametrize("name", PIECEWISE)
@given(seed=SEEDS)
def test_the_violation_is_how_fast_the_dual_objective_can_grow(name, seed):
    row = Row(name, seed)
    assert row.computed_violation() == pytest.approx(row.violation(), rel=1e-5, abs=1e-5 * (1 + row.scale()))
    off = row.gap() > 1e-9 * row.scale()
    assert not off or row.computed_violation() > 0
    row.step()
    assert row.computed_violation() <= 1e-9 * row.scale() / row.cost


def some_rows(name, seed, n=40):
    """Return demands of rows, some of cost 0, in several scores one against the rest or of all classes, and scores."""
    rng = np.random.default_rng(seed)
    several = name in TOGETHER or (name in LABELS and seed % 2 == 1)
    k = int(rng.integers(2, 6)) if several else 1
    if several:
        targets = rng.integers(0, k, n).astype(float)
    else:
        targets = rng.choice([-1.0, 1.0], n) if name in LABELS else rng.normal(size=n)
    costs = rng.exponential(size=n) * (rng.random(n) < 0.8)
    balance = np.ones(k) if name in TOGETHER or not several else rng.exponential(size=k) + 0.1
    return Demands(targets, costs, balance), rng.normal(size=(k, n)), rng.normal(size=(n, k)) * rng.choice([0.1, 1.0])


def rows_apart(name, demands, scores, dual):
    """Yield scores, variables, target and cost of each row, one against the rest of each class."""
    k = len(demands.balance)
    for i, (target, cost) in enumerate(zip(demands.targets, demands.costs, strict=True)):
        if name in TOGETHER or k == 1:
            yield scores[:, i], dual[i], target, cost
            continue
        for c in range(k):
            own = target == c
            yield scores[[c], i], dual[i, [c]], 1.0 if own else -1.0, cost * (demands.balance[c] if own else 1.0)


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_losses_of_all_rows(name, seed):
    demands, scores, draw = some_rows(name, seed)
    dual = np.ascontiguousarray(feasible(made(name), demands, draw))
    rows = [row for row in rows_apart(name, demands, scores, dual) if row[-1] > 0]
    primal, conjugates = np.zeros(len(scores)), np.zeros(len(scores))
    primal_losses(made(name), demands, 0, scores, primal)
    dual_losses(made(name), demands, dual, conjugates)
    wanted = sum(cost * naive.row_loss(name, f, target, EPSILON) for f, _, target, cost in rows)
    assert primal.sum() == pytest.approx(wanted, rel=1e-12)
    wanted = sum(naive.conjugate(name, beta, target, cost, EPSILON) for _, beta, target, cost in rows)
    assert conjugates.sum() == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
def test_variables_from_elsewhere_become_feasible_and_feasible_ones_stay(name, seed):
    demands, scores, draw = some_rows(name, seed)
    found = feasible(made(name), demands, draw)
    for _, beta, target, cost in rows_apart(name, demands, scores, found):
        if cost > 0:
            assert naive.conjugate(name, beta, target, cost, EPSILON) < np.inf
        else:
            assert not beta.any()
    np.testing.assert_allclose(feasible(made(name), demands, found), found, rtol=1e-14, atol=1e-15)
    assert np.abs(found).max() > 0


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in PIECEWISE if not name.startswith("squared")])
def test_variables_at_their_bounds_violate_nothing(name, real):
    """A bound such as 0.7 is another number in float32, and sums of changes end beside it."""
    k, n = (3, 40) if name in TOGETHER else (1, 40)
    costs = np.linspace(0.1, 3, n)
    demands = Demands(np.ones(n), costs, np.ones(k))
    dual = np.zeros((n, k), real)
    dual[:, min(1, k - 1)] = costs * (1 if name != "weston_watkins" else 2)
    if k > 1:
        dual[:, [0, 2]] = -costs[:, None] * ([1, 0] if name == "crammer_singer" else [1, 1])
    dual *= real(1 - np.finfo(real).eps)
    scores = np.zeros((k, n))
    if k > 1:
        scores[0] = 0.5  # class 0 is the worst, and both are within the margin
    assert violation_of(made(name), demands, 0, dual, scores) <= (2 * EPSILON if "epsilon" in name else 0)


def test_a_step_of_the_logistic_loss_solves_its_equation_at_any_scale():
    rng = np.random.default_rng(0)
    costs, curvatures = 10 ** rng.uniform(-2, 4, 5000), 10 ** rng.uniform(-3, 3, 5000)
    own = costs * rng.choice([0, 1, 1e-9, 1 - 1e-9, 0.3, 0.8], 5000)
    scores = rng.normal(size=5000) * 10 ** rng.uniform(-2, 3, 5000)
    found = updates_of_log(LOSSES["log_loss"](), own, scores, costs, curvatures)
    for new, b, f, c, q in zip(found, own, scores, costs, curvatures, strict=True):
        excess = lambda u: u + f + q * (c * special.expit(u) - b)  # noqa: B023, E731
        root = optimize.brentq(excess, -f - q * (c - b) - 1, -f + q * b + 1, xtol=1e-13, rtol=1e-14)
        assert new == pytest.approx(c * special.expit(root), rel=1e-6, abs=1e-7 * c)
