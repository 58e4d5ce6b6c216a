"""Do the loops of tutorials solve the problems that they are compared on?"""

import numpy as np
import pytest

from bench.classical import recipes
from bench.classical.cases import CLASSICAL_CASES
from bench.classical.loops import DualLoop, PrimalLoop, Recipe, kernel_of
from bench.classical.referee import Answer, answer_of_all, examine
from fastsvm import SVC


def test_loops_record_the_objectives_of_their_problems(small):
    parameters, data = small()
    for kind in (DualLoop, PrimalLoop):
        model = kind(kernel_of(parameters), Recipe(0.01, 50, parameters.C)).fit(data.X, data.y)
        answer = Answer(model.dual_coef_[0], float(model.intercept_[0]), kind is PrimalLoop)
        (found,) = examine(parameters, data, [answer])
        assert len(model.losses_) == 50
        assert model.losses_[-1] == pytest.approx(found.dual if kind is DualLoop else found.primal, rel=1e-9)


def test_dual_loop_ends_where_exact_steps_do(small):
    parameters, data = small()
    exact = SVC(**parameters.estimator, solver="coordinate", tol=1e-9).fit(data.X, data.y)
    recipe = Recipe(0.05, 20_000, parameters.C, recorded=False)
    loop = DualLoop(kernel_of(parameters), recipe).fit(data.X, data.y)
    np.testing.assert_allclose(loop.dual_coef_[0], answer_of_all(exact, 40, False).beta, atol=1e-4)
    np.testing.assert_allclose(loop.intercept_, exact.intercept_, atol=1e-3)
    assert loop.losses_ == []


@pytest.mark.parametrize(
    ("name", "data"), [("loops-moons-400-primal", lambda: recipes.moons(20)), ("loops-donut-500-dual", recipes.donut)]
)
def test_kernels_of_the_loops_are_those_of_the_problems(name, data):
    parameters = next(one.parameters for one in CLASSICAL_CASES if one.name == name)
    X = data().X[:40]
    np.testing.assert_allclose(kernel_of(parameters)(X, X), parameters.matrix(X), rtol=1e-9, atol=1e-12)
