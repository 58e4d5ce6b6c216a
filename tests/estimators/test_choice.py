"""Is the solver chosen from facts alone, is it said, and does each solve what it is given?"""

import io

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from fastsvm import SVC, LinearOneClassSVM, LinearSVC, LogisticRegression
from fastsvm.estimators.choice import (
    KERNEL_SOLVERS,
    LINEAR_SOLVERS,
    KernelFacts,
    LinearFacts,
    kernel_solver,
    linear_solvers,
)
from fastsvm.kernels import Laplacian
from fastsvm.losses import LOSSES
from fastsvm.tuning import KernelTuning, LinearTuning, Tuning, changed, current_tuning, tuned

HINGE, SQUARED, LOG = (LOSSES[name]() for name in ("hinge", "squared_hinge", "log_loss"))
TABLE = LinearFacts(50_000, 31, 50_000.0, resident=True, sparse=False, loss=SQUARED)


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        (TABLE, ["newton", "ascent"]),
        (TABLE._replace(loss=HINGE), ["ascent"]),
        (TABLE._replace(loss=LOG), ["newton"]),
        (TABLE._replace(loss=LOG, resident=False), ["ascent"]),
        (TABLE._replace(resident=False), ["ascent"]),
        (TABLE._replace(by_gap=False), ["ascent"]),
        (TABLE._replace(n_weights=3073), ["ascent"]),
        (TABLE._replace(l1=True, resident=False), ["newton"]),
        (TABLE._replace(one_class=True), ["given-sum"]),
        (TABLE._replace(n_samples=1000, loss=HINGE), ["weights", "ascent"]),
        (TABLE._replace(n_samples=1000, loss=HINGE, is_watched=True), ["ascent"]),
        (TABLE._replace(n_samples=1000, loss=LOG), ["weights", "newton"]),
        (TABLE._replace(n_samples=5000, loss=LOG), ["newton"]),
        (TABLE._replace(n_samples=5000), ["newton", "ascent"]),
        (TABLE._replace(n_samples=5000, by_gap=False), ["weights", "ascent"]),
        (TABLE._replace(n_samples=5000, loss=HINGE), ["weights", "ascent"]),
        (TABLE._replace(n_samples=100, n_weights=5000), ["gram", "ascent"]),
        (TABLE._replace(n_samples=100, n_weights=5000, loss=LOG), ["gram", "newton"]),
        (TABLE._replace(n_samples=1000, n_weights=5000, loss=LOG, fits_gram=True), ["newton"]),
        (TABLE._replace(n_samples=1000, n_weights=5000), ["ascent"]),
        (TABLE._replace(n_samples=1000, n_weights=5000, fits_gram=True), ["gram", "ascent"]),
        (TABLE._replace(n_samples=1000, n_weights=5000, fits_gram=True, sparse=True), ["ascent"]),
        (TABLE._replace(n_samples=1000, n_weights=5000, fits_gram=True, sparse=True, by_gap=False), ["gram", "ascent"]),
        (TABLE._replace(n_samples=1000, n_weights=900, fits_gram=True), ["ascent"]),
        (TABLE._replace(n_weights=200_001, sparse=True, mean_values=5.0), ["rounds"]),
        (TABLE._replace(n_weights=200_001, sparse=True, mean_values=40.0), ["ascent"]),
        (TABLE._replace(n_samples=20_000, n_weights=2001, sparse=True, mean_values=400.0), ["rounds"]),
        (TABLE._replace(n_samples=20_000, n_weights=2001, sparse=True, mean_values=400.0, by_gap=False), ["ascent"]),
        (TABLE._replace(n_samples=20_000, n_weights=201, sparse=True, mean_values=400.0), ["newton", "ascent"]),
        (TABLE._replace(n_samples=20_000, n_weights=201, sparse=True, mean_values=400.0, loss=HINGE), ["rounds"]),
        (TABLE._replace(n_samples=300, n_weights=500, sparse=True, mean_values=2.0), ["gram", "weights", "rounds"]),
        (TABLE._replace(n_samples=300, n_weights=500, sparse=True, mean_values=2.0, n_scores=9), ["rounds"]),
        (
            TABLE._replace(n_samples=300, n_weights=5000, sparse=True, mean_values=2.0, n_scores=9, fits_gram=True),
            ["rounds"],
        ),
        (
            TABLE._replace(n_samples=300, n_weights=5000, sparse=True, mean_values=2.0, n_scores=10, fits_gram=True),
            ["gram", "rounds"],
        ),
        (TABLE._replace(n_weights=200_001, sparse=True, mean_values=15.0, loss=LOG), ["newton"]),
        (TABLE._replace(n_weights=200_001, sparse=True, mean_values=5.0, loss=LOG), ["rounds"]),
        (TABLE._replace(loss=LOSSES["crammer_singer"](), n_samples=1000), ["ascent"]),
    ],
)
def test_solvers_of_a_problem(facts, wanted):
    assert [solver.name for solver in linear_solvers(facts, LinearTuning())] == wanted


def test_every_problem_has_a_solver_whatever_is_turned_off():
    losses = [kind() for kind in LOSSES.values()]
    for off in ({}, *({name: False} for name in ("weights", "gram", "newton", "rounds"))):
        tuning = LinearTuning(**off)
        for loss in losses:
            for n, d, mean in ((50, 4, 50.0), (1500, 2000, 3.0), (10**6, 30, 1e6), (10**6, 10**6, 2.0)):
                for fact in ("l1", "one_class", "is_watched", "sparse", "fits_gram", "by_gap", "resident"):
                    facts = LinearFacts(n, d, mean, True, False, loss)
                    facts = facts._replace(**{fact: not getattr(facts, fact)})
                    found = [solver.name for solver in linear_solvers(facts, tuning)]
                    assert found and (fact == "l1" or not set(off) & set(found))


def test_each_solver_comes_to_the_same_optimum():
    X, y = make_classification(300, 400, n_informative=10, random_state=0)
    X = sparse.csr_matrix(np.where(np.abs(X) > 1.5, X, 0))
    off = dict.fromkeys(("gram", "weights", "newton", "rounds"), False)
    seen, models = set(), []
    for on in ("gram", "weights", "newton", "rounds", "ascent"):
        numbers = {**off, **({on: True} if on in off else {}), "values_of_feature": 400, "most_on_shorter_side": 400}
        numbers |= {"hessian_features": 400, "small_values": 0 if on == "newton" else 1 << 20}
        with tuned(changed({"linear": numbers})):
            models.append(LinearSVC(tol=1e-8).fit(X, y))
        seen.add(models[-1].solver_)
        assert models[-1].objective_ == pytest.approx(models[0].objective_, rel=1e-7)
        assert models[-1].converged_
    assert seen == {"gram", "weights", "newton", "rounds", "ascent"}
    assert LinearOneClassSVM().fit(X).solver_ == "given-sum"
    assert {solver.name for solver in LINEAR_SOLVERS} == {*seen, "given-sum"}


def test_solver_is_said():
    X, y = make_classification(200, 5, random_state=0)
    assert LogisticRegression().fit(X, y).solver_ == "weights"
    assert LogisticRegression(penalty="l1").fit(X, y).solver_ == "newton"


def test_tuning_ends_with_its_context():
    with pytest.raises(ZeroDivisionError), tuned(changed({"linear": {"newton": False}})):
        assert not current_tuning().linear.newton
        _ = 1 / 0
    assert current_tuning() == Tuning()
    with pytest.raises(ValueError, match="no_such"):
        changed({"linear": {"no_such": 1}})


# --- kernel machines -------------------------------------------------------------------------------------

FEW = KernelFacts(150, 1, 150, 4, 1, 0.3, is_exact=True, on_demand=True, memory=10**8, n_threads=2)


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        (FEW, "small-rows"),
        (FEW._replace(on_demand=False), "small-matrix"),
        (FEW._replace(is_exact=False), "smo"),
        (FEW._replace(memory=10**4), "smo"),
        (FEW._replace(longest=2049, n_samples=2049), "smo"),
        (FEW._replace(longest=1100, n_samples=1100, multipliers_per_sample=2), "smo"),
        (FEW._replace(longest=200, n_problems=45, n_samples=1000, n_features=3000, ns_of_value=4.0), "small-matrix"),
        (FEW._replace(longest=2000, n_samples=2000, n_features=5000, ns_of_value=900.0), "small-matrix"),
    ],
)
def test_solvers_of_a_kernel_machine(facts, wanted):
    assert kernel_solver(facts, KernelTuning()) == wanted
    assert kernel_solver(facts, KernelTuning(small=False)) == "smo"


def test_small_problems_and_working_sets_come_to_the_same_optimum():
    X, y = make_classification(300, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    whole = SVC(tol=1e-8).fit(X, y)
    with tuned(changed({"kernel": {"small": False}})):
        sets = SVC(tol=1e-8).fit(X, y)
    matrix = SVC(tol=1e-8, kernel=Laplacian(0.2)).fit(X, y)
    assert [whole.solver_, sets.solver_, matrix.solver_] == ["small-rows", "smo", "small-matrix"]
    assert {solver.name for solver in KERNEL_SOLVERS} == {whole.solver_, sets.solver_, matrix.solver_}
    assert sets.objective_ == pytest.approx(whole.objective_, rel=1e-9)
    assert SVC(solver="coordinate", fit_intercept=False).fit(X, y).solver_ == "coordinate"


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (SVC(), "SVC (small-rows): "),
        (SVC(solver="coordinate"), "SVC (coordinate): "),
        (LinearSVC(loss="hinge", max_iter=99), "LinearSVC (ascent): "),
        (LogisticRegression(max_iter=99), "LogisticRegression (newton): "),
    ],
)
def test_verbose_says_the_solver(model, shown, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    model.set_params(verbose=True).fit(*make_classification(100, random_state=0))
    assert shown in terminal.getvalue()
