"""The length of a step, where the slope changes by much within a short part of it."""

import numpy as np
import pytest

from fastsvm.losses import SquaredHinge, loss_value
from fastsvm.solvers.linear_primal.penalties import FLAT, Line, best_length


@pytest.mark.parametrize("kink", [1e-6, 0.1, 0.37, 3.0])
@pytest.mark.parametrize("steep", [1e2, 1e6])
def test_a_step_across_a_kink_leads_downhill(steep, kink):
    """The first row calls for the step, and the second one is violated from the kink on."""
    scores, change = np.array([-1.0, 1 + steep * kink]), np.array([0.1, -steep])
    line = Line(
        SquaredHinge(), np.ones(2), np.array([1.0, 100.0]), scores, change, np.zeros(1), np.zeros(1), 0.0
    )  # fmt: skip

    def objective(t):
        each = (loss_value(line.loss, scores[i] + t * change[i], 1.0) for i in range(2))
        return float(np.dot(line.costs, list(each)))

    length = best_length(line, -2 * 2 * 0.1, FLAT[0])
    assert length == pytest.approx(kink, rel=1e-6, abs=1e-6)
    assert objective(length) < objective(0)
