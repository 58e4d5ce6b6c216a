"""Does Newton's method begin with a tenth of many rows, and does that change where it ends?"""

import numpy as np
import pytest

from fastsvm import LogisticRegression
from fastsvm.tuning import changed, tuned

N = 40_000
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3)).astype(np.float32)
CLASSES = (X @ [1.0, -2.0, 0.5] + RNG.standard_normal(N) > 0).astype(int)


def fitted(y, penalty, **weight):
    with tuned(changed({"linear": {"weights": False}})):
        return LogisticRegression(penalty=penalty, tol=1e-8).fit(X, y, **weight)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
@pytest.mark.parametrize("y", [CLASSES, CLASSES + (X[:, 2] > 1)], ids=["two classes", "three classes"])
def test_fewer_steps_with_all_rows_lead_to_the_same_minimum(y, penalty):
    soon = fitted(y, penalty)
    with tuned(changed({"linear": {"some_rows": False}})):
        late = fitted(y, penalty)
    assert soon.n_iter_ < late.n_iter_
    assert soon.converged_ and late.converged_
    assert soon.objective_ == pytest.approx(late.objective_, rel=1e-8)
    assert soon.coef_ == pytest.approx(late.coef_, abs=1e-3)


def test_rows_of_which_all_are_left_out_are_no_beginning():
    weight = np.ones(N)
    weight[::10] = 0
    assert fitted(CLASSES, "l1", sample_weight=weight).converged_
