"""Are the answers of all competitors optimal, and do they predict?"""

from dataclasses import asdict

import numpy as np
import pytest

from bench.harness.data import Data, save
from bench.machines.competitors import MACHINE_COMPETITORS
from bench.machines.parameters import MachineParameters
from bench.machines.referee import judge
from bench.made_up_tables import houses
from bench.workers import ANSWER, Task

LEAST = {"svr": 0.5, "nu-svr": 0.5, "nu-svc": 0.7, "one-class": 0.6}


def data_of(machine):
    X, y, X_test, y_test = houses(400)
    return Data(X, y > 2, X_test, y_test > 2) if machine == "nu-svc" else Data(X, y, X_test, y_test)


@pytest.mark.parametrize("competitor", MACHINE_COMPETITORS, ids=lambda one: one.name)
def test_answers_of_competitors_are_optimal_and_predict(competitor, crew_for, tmp_path):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    for machine in competitor.machines:
        folder = tmp_path / machine
        folder.mkdir()
        data, parameters = data_of(machine), MachineParameters(machine, 0.1, nu=0.3)
        save(data, folder)
        task = Task(competitor.name, "fit", asdict(parameters), 2, 100, str(folder), 60)
        crew_for(competitor).run("bench.workers.machines", task, folder, {}, "session")
        with np.load(folder / ANSWER) as stored:
            (found,) = judge(parameters, data, [dict(stored)], True)
        assert -1e-9 < found["duality_gap"] / abs(found["objective"]) < 3e-3
        assert max(found["bound_violation"], found["balance_violation"]) < 1e-4
        assert found["accuracy"] > LEAST[machine]


@pytest.mark.parametrize(("name", "value", "why"), [
    ("support", [0, 0], "distinct"), ("dual_coef", [[1.0]], "shape"), ("intercept", [np.nan], "finite"),
])  # fmt: skip
def test_answers_of_another_layout_are_refused(name, value, why):
    answer = {"support": [0, 1], "dual_coef": [[1.0, -1.0]], "intercept": [0.0]} | {name: value}
    stored = {key: np.asarray(each) for key, each in answer.items()}
    (found,) = judge(MachineParameters("svr", 0.1), data_of("svr"), [stored], True)
    assert why in found
