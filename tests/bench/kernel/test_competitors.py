"""Are the answers of all competitors optimal, and do they predict?"""

from dataclasses import asdict
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from bench.harness.data import save
from bench.kernel.competitors import COMPETITORS, KernelParameters
from bench.suites import SUITES
from bench.workers import ANSWER, Task


@pytest.mark.parametrize("competitor", COMPETITORS, ids=lambda one: one.name)
def test_answers_of_competitors_are_optimal_and_predict(competitor, crew_for, reversed_digits, tmp_path):
    if not competitor.importable:
        pytest.skip(f"{competitor.module} is not installed")
    parameters = KernelParameters(C=1, gamma=0.1)
    for n_classes, form in product((2, 4), (np.asarray, sparse.csr_matrix)):
        folder = tmp_path / f"{n_classes}-{form.__name__}"
        folder.mkdir()
        data = reversed_digits(n_classes, form, 150)
        save(data, folder)
        task = Task(competitor.name, "predict", asdict(parameters), 2, 100, str(folder), 60)
        crew_for(competitor).run("bench.workers.fit", task, folder, {}, "session")
        with np.load(folder / ANSWER) as stored:
            (found,) = SUITES["predict"].judge(parameters, data, [dict(stored)], True)
        assert found["kkt_gap"] < 1.1e-3
        assert found["agreement"] > 0.99
        assert found["accuracy"] > 0.9
