import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fastsvm.solvers.kernel_dual.problem import KernelProblem, worst_ends
from fastsvm.solvers.kernel_dual.working_sets import movable, select, settled


def state(seed, n, levels=None):
    """Return y, upper, alpha, F, who may rise and who may fall; F has few levels if asked to."""
    rng = np.random.default_rng(seed)
    y, upper = rng.choice([-1.0, 1.0], n), rng.uniform(0.5, 2, n)
    alpha = upper * rng.choice([0.0, 0.5, 1.0], n)
    gradient = rng.normal(size=n) if levels is None else rng.integers(0, levels, n) / 4
    y[:2], alpha[:2], gradient[:2] = 1, upper[:2] / 2, (-0.5, 5.0)  # two free rows, so that some may move
    rise = np.array([a < u if s > 0 else a > 0 for s, a, u in zip(y, alpha, upper, strict=True)])
    fall = np.array([a > 0 if s > 0 else a < u for s, a, u in zip(y, alpha, upper, strict=True)])
    return y, upper, alpha, gradient, rise, fall


@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), levels=st.sampled_from([None, 3, 25]))
def test_settled_is_the_distance_to_the_nearest_partner(seed, n, levels):
    y, upper, alpha, gradient, rise, fall = state(seed, n, levels)
    low, high = gradient[rise].min(), gradient[fall].max()
    problem = KernelProblem(y, upper, y)
    assert (low, high) == worst_ends(problem, alpha, gradient)
    rising, falling = movable(problem, alpha, gradient)
    np.testing.assert_array_equal(rising, np.where(rise, gradient, np.inf))
    np.testing.assert_array_equal(falling, np.where(fall, gradient, -np.inf))
    for i, slack in enumerate(settled(problem, alpha, gradient, low, high)):
        # How far F of row i is from that of some row which would move the other way.
        away = [gradient[i] - gradient[j] for j in np.flatnonzero(fall) if rise[i]]
        away += [gradient[j] - gradient[i] for j in np.flatnonzero(rise) if fall[i]]
        assert slack == (min(away) if min(away) > 0 else -np.inf)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 200),
    levels=st.sampled_from([None, 3, 25]),
    size=st.integers(2, 220),
    share=st.floats(0, 1),
)
def test_a_working_set_is_what_is_retained_and_the_worst_violators(seed, n, levels, size, share):
    y, upper, alpha, gradient, rise, fall = state(seed, n, levels)
    low, high = gradient[rise].min(), gradient[fall].max()
    retained = np.random.default_rng(seed).permutation(n)[: int(share * min(n, size - 2))]
    chosen = np.full(size, -1)
    count = select(KernelProblem(y, upper, y), alpha, gradient, retained, low, high, chosen)
    chosen = chosen[:count]
    added = chosen[len(retained) :]

    assert count <= size
    assert len(set(chosen)) == count
    np.testing.assert_array_equal(chosen[: len(retained)], retained)
    assert ((rise & (gradient <= high)) | (fall & (gradient >= low)))[added].all()
    assert (gradient[chosen][rise[chosen]] == low).any()
    assert (gradient[chosen][fall[chosen]] == high).any()

    # Of each kind a half of what is free is taken; the order is that of histograms of 256 bins.
    wanted, bin_width = (size - len(retained) - 2) // 2, (high - low) / 255
    rest = np.setdiff1d(np.arange(n), retained)
    for may, violation in ((rise, high - gradient), (fall, gradient - low)):
        rows = rest[may[rest] & (violation[rest] >= 0)]
        assert may[added].sum() >= min(wanted, len(rows))
        worst = np.sort(violation[rows])[::-1]
        enough = worst[wanted - 1] + bin_width * (1 + 1e-9) if 0 < wanted <= len(worst) else 0.0
        needed = rows[violation[rows] > enough] if wanted > 0 else rows[:0]
        assert set(needed) <= set(added)


def test_a_working_set_as_large_as_the_problem_holds_all_violators():
    y, upper, alpha, gradient, rise, fall = state(0, 100)
    low, high = gradient[rise].min(), gradient[fall].max()
    chosen = np.empty(250, np.int64)
    count = select(KernelProblem(y, upper, y), alpha, gradient, np.empty(0, np.int64), low, high, chosen)
    violators = (rise & (gradient < high)) | (fall & (gradient > low))
    assert set(np.flatnonzero(violators)) <= set(chosen[:count])
