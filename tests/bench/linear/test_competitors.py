"""Do the weights of all competitors predict, and come near the optimum?"""

from dataclasses import asdict
from itertools import cycle

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC

from bench.harness.competitor import OURS
from bench.harness.data import save
from bench.linear.parameters import LinearParameters
from bench.linear.referee import Weights, judge, objectives
from bench.suites import competitors_of
from bench.workers import ANSWER, Task

NOT_QUITE = dict.fromkeys(("sklearn-sgd", "sklearn-sgd-tuned", "vowpalwabbit"), 1.5)  # times the optimum
EPOCHS = 50  # at most: more take longer and are not needed to come near
SHAPES = (2, np.asarray), (4, sparse.csr_matrix)


def cases(*losses):
    """Return number of classes, form and loss of two cases."""
    return [(*shape, loss) for shape, loss in zip(SHAPES, cycle(losses), strict=False)]


@pytest.fixture
def judged(crew_for, tmp_path):
    """Return what the referee finds about a competitor's curve."""

    def run(suite, competitor, data, parameters):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        save(data, folder)
        task = Task(competitor.name, suite, asdict(parameters), 2, 100, str(folder), 60)
        crew_for(competitor).run("bench.workers.curve", task, folder, {}, "session")
        with np.load(folder / ANSWER) as stored:
            (found,) = judge(parameters, data, [dict(stored)], True)
        budgets = [point["budget"] for point in found["points"]]
        assert budgets == [one for one in competitor.budgets if one <= EPOCHS] and len(budgets) > 4
        return found

    return run


@pytest.fixture(scope="module")
def problem(reversed_digits):
    """Return data, parameters and the optimum, each once."""
    known = {}

    def make(n_classes, form, loss):
        data, parameters = reversed_digits(n_classes, form), LinearParameters(loss, C=0.1, most_budget=EPOCHS)
        if (n_classes, loss) not in known:
            known[n_classes, loss] = optimum(data, parameters)
        return data, parameters, known[n_classes, loss]

    return make


def optimum(data, parameters):
    model = LinearSVC(C=parameters.C, loss=parameters.loss, tol=1e-8, max_iter=100_000, random_state=0)
    model.fit(data.X, data.y)
    return objectives(data.X, data.y, parameters, [Weights(model.coef_, model.intercept_)])[0]


@pytest.mark.parametrize("competitor", competitors_of("linear").values(), ids=lambda one: one.name)
def test_competitors_come_near_the_common_optimum(competitor, judged, problem):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    for n_classes, form, loss in cases(*competitor.losses):
        data, parameters, least = problem(n_classes, form, loss)
        found = judged("linear", competitor, data, parameters)
        best = min(point["objective"] for point in found["points"])
        assert (1 - 1e-6) * least < best < NOT_QUITE.get(competitor.name, 1.005) * least
        assert found["accuracy"] > 0.85
        offs = [point["off"] for point in found["points"]]
        assert all(off < 1e-6 for off in offs) if competitor.name == OURS else set(offs) == {None}


@pytest.mark.parametrize("case", ["log_loss l2", "log_loss l1", "squared_hinge l1", "outlier l2"])
def test_other_linear_machines_have_the_same_objective(case, judged, reversed_digits):
    data, (loss, penalty) = reversed_digits(2, np.asarray), case.split()
    parameters = LinearParameters(loss, C=0.1, penalty=penalty, most_budget=EPOCHS)
    if loss == "outlier":
        data = data._replace(y=np.zeros(len(data.y)), y_test=np.zeros(len(data.y_test)))
        parameters = LinearParameters(loss, nu=0.3, most_budget=EPOCHS)
    able = [one for one in competitors_of("linear_machines").values() if one.importable and not one.lacks(parameters)]
    found = [judged("linear_machines", one, data, parameters) for one in able]
    best = [min(point["objective"] for point in one["points"]) for one in found]
    assert best == pytest.approx([min(best)] * len(best), rel=1e-6)
    assert all(one["accuracy"] > 0.6 for one in found)
    assert all(point["off"] < 1e-6 for point in found[0]["points"])


@pytest.mark.parametrize("competitor", competitors_of("sgd").values(), ids=lambda one: one.name)
def test_weights_of_competitors_predict(competitor, judged, reversed_digits):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    for n_classes, form, loss in cases(*(one for one in ("hinge", "softmax") if one in competitor.losses)):
        data = reversed_digits(n_classes, form)
        found = judged("sgd", competitor, data, LinearParameters(loss, 1e-3, most_budget=EPOCHS))
        assert found["accuracy"] > 0.85
        assert found["objective"] < n_classes / 4
