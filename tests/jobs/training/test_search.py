"""Searches of jobs: what scikit-learn finds, interrupted, limited in time, and refused."""

import json
import signal
import warnings

import h5py
import numpy as np
import pytest
from runs import GRIDS, assert_same_model, searching
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV

import fastsvm
from fastsvm.cli import main
from fastsvm.estimators.search import automatic
from fastsvm.jobs.runner import RunFolder, resume, run
from fastsvm.jobs.signals import Stopped, StopSignals
from fastsvm.jobs.training.job_file import Job, read_job
from fastsvm.jobs.training.train import split


@pytest.mark.parametrize("kind", GRIDS)
def test_a_search_finds_what_scikit_learn_finds(kind, iris, tmp_path):
    job = searching(kind, iris)
    result = run(job, tmp_path / "run")
    model = fastsvm.SVC(tol=1e-6, random_state=0) if kind == "svc" else fastsvm.LinearSVC(random_state=0)
    wanted = GridSearchCV(model, GRIDS[kind], cv=3).fit(*load_iris(return_X_y=True))
    cells = RunFolder(tmp_path / "run").search["cells"]
    assert len(cells) == len(wanted.cv_results_["params"])
    for parameters, mean in zip(wanted.cv_results_["params"], wanted.cv_results_["mean_test_score"], strict=True):
        found = next(cell for cell in cells if cell["parameters"] == parameters)
        assert found["mean_score"] == pytest.approx(mean, abs=1e-12)
    assert result["search"]["parameters"] == wanted.best_params_
    assert result["search"]["mean_score"] == pytest.approx(wanted.best_score_, abs=1e-12)
    saved = fastsvm.load(tmp_path / "run" / "model.fastsvm").get_params()
    assert {name: saved[name] for name in wanted.best_params_} == wanted.best_params_
    assert "chosen" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", GRIDS)
def test_an_interrupted_search_compares_the_rest_only(kind, iris, tmp_path, monkeypatch):
    job, folder = searching(kind, iris), RunFolder(tmp_path / "run")
    wanted = run(job, tmp_path / "whole")

    def asked(stops):
        raise Stopped(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(StopSignals, "raise_if_asked", asked)
        run(job, folder.path)
    before = folder.search["cells"]
    assert 0 < len(before) < np.prod([len(values) for values in GRIDS[kind].values()])
    found = resume(folder.path)
    assert folder.search["cells"][: len(before)] == before
    assert found["search"] == wanted["search"]
    assert_same_model(folder.path, tmp_path / "whole")
    events = [event["event"] for event in folder.events()]
    assert events.count("compared") == RunFolder(tmp_path / "whole").log_file.read_text().count('"compared"')


def test_a_search_on_other_data_is_not_resumed(iris, tmp_path, monkeypatch):
    job, folder = searching("linear", iris), RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fastsvm.jobs.runner.train", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        run(job, folder.path)
    with h5py.File(iris, "r+") as data:
        data["y"][0] = 2
    with pytest.raises(ValueError, match="because the training data changed"):
        resume(folder.path)
    folder.search_file.write_text("{")
    with pytest.raises(ValueError, match=r"search.json is damaged.*Remove it"):
        resume(folder.path)


def test_a_search_that_could_not_be_written_is_kept_in_memory(iris, tmp_path, monkeypatch):
    job, write = searching("linear", iris), RunFolder.write

    def full(folder, path, words):
        if path.name == "search.json" and len(words["cells"]) > 1:
            raise OSError(28, "No space left on device")
        write(folder, path, words)

    monkeypatch.setattr(RunFolder, "write", full)
    result = run(job, tmp_path / "run")
    assert len(RunFolder(tmp_path / "run").search["cells"]) == 1
    monkeypatch.undo()
    assert result["search"] == run(job, tmp_path / "whole")["search"]


def test_a_search_is_written_when_there_is_room_again(iris, tmp_path, monkeypatch):
    write, whole = RunFolder.write, RunFolder(tmp_path / "whole")
    run(searching("linear", iris), whole.path)

    def full_at_first(folder, path, words):
        if path.name == "search.json" and not folder.result_file.exists():
            raise OSError(28, "No space left on device")
        write(folder, path, words)

    monkeypatch.setattr(RunFolder, "write", full_at_first)
    run(searching("linear", iris), tmp_path / "run")
    parameters = [
        [cell["parameters"] for cell in RunFolder(tmp_path / name).search["cells"]] for name in ("run", "whole")
    ]
    assert parameters[0] == parameters[1]


def test_a_search_ends_when_half_of_the_time_is_over(iris, tmp_path, capsys):
    job = searching("linear", iris)._replace(seconds=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = run(job, tmp_path / "run")
    assert len(RunFolder(tmp_path / "run").search["cells"]) == 1
    assert result["search"]["parameters"] and "reached its time limit" in capsys.readouterr().err


def test_weights_of_classes_are_searched_by_label(iris, tmp_path):
    grid = {"class_weight": [{"0": 5.0, "2": 0.1}, "balanced"]}
    for kind in ("svc", "linear"):
        run(searching(kind, iris)._replace(grid=grid), tmp_path / kind)
        assert len(RunFolder(tmp_path / kind).search["cells"]) == 2


# --- values that the search chooses ----------------------------------------------------------------------------------


MOONS = make_moons(200, noise=0.2, random_state=0)


@pytest.fixture
def moons(tmp_path):
    with h5py.File(tmp_path / "moons.h5", "w") as data:
        data["X"], data["y"] = MOONS
    return str(tmp_path / "moons.h5")


def walking(moons, **more):
    parameters = {"tol": 1e-6, "standardize": True}
    return Job(moons, kind="svc", grid={"C": "auto", "gamma": "auto"}, parameters=parameters, folds=3, **more)


def test_a_job_chooses_what_the_search_of_python_chooses(moons, tmp_path):
    result = run(walking(moons), tmp_path / "run")
    wanted = fastsvm.SVCSearch(fastsvm.SVC(tol=1e-6, standardize=True), cv=3).fit(*MOONS)
    cells = RunFolder(tmp_path / "run").search["cells"]
    assert [cell["parameters"] for cell in cells] == wanted.cv_results_["params"]
    assert result["search"]["parameters"] == wanted.best_params_
    assert result["search"]["mean_score"] == pytest.approx(wanted.best_score_)
    saved = fastsvm.load(tmp_path / "run" / "model.fastsvm").get_params()
    assert {name: saved[name] for name in ("C", "gamma")} == wanted.best_params_
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Rows are values of gamma, columns of C" in report
    assert f"<b>{round(wanted.best_score_, 4)}</b>" in report


def test_a_walk_that_was_interrupted_goes_on(moons, tmp_path, monkeypatch):
    folder, fits = RunFolder(tmp_path / "run"), []
    wanted = run(walking(moons), tmp_path / "whole")

    def asked(stops):
        raise Stopped(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(StopSignals, "raise_if_asked", asked)
        run(walking(moons), folder.path)
    before = folder.search["cells"]
    evaluate = automatic.evaluate
    monkeypatch.setattr(
        automatic, "evaluate", lambda models, *more: fits.append(len(models)) or evaluate(models, *more)
    )
    assert resume(folder.path)["search"] == wanted["search"]
    after = folder.search["cells"]
    assert after == RunFolder(tmp_path / "whole").search["cells"]
    assert 0 < len(before) < len(after) == len(before) + sum(fits)


def test_a_walk_ends_when_half_of_the_time_is_over(moons, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = run(walking(moons, seconds=1e-3), tmp_path / "run")
    assert "reached its time limit after 9 cells" in capsys.readouterr().err
    assert result["search"]["parameters"]["C"] in (0.25, 4.0, 64.0)


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"C": "best"}, "search.C must be a list of values to try, or \"auto\", found 'best'"),
        ({"loss": "auto"}, "search.loss must be a list of values to try, found 'auto'"),
        ({"C": "auto", "class_weight": ["balanced"]}, "class_weight, which goes with lists"),
    ],
)
def test_a_walk_over_what_it_does_not_know_is_refused(grid, words, iris, tmp_path):
    lines = [f"{name} = {json.dumps(value)}" for name, value in grid.items()]
    (tmp_path / "job.toml").write_text(
        "\n".join([f'[data]\ntrain = "{iris}"\n[model]\nkind = "linear"\n[search]', *lines])
    )
    with pytest.raises(ValueError, match=words):
        read_job(tmp_path / "job.toml")


BAD = [
    ({"C": [1.0, -1.0]}, None), ({"C": ["1"]}, None), ({"loss": ["hinge", "none"]}, None), ({"C": [1.0]}, "nonsense"),
]  # fmt: skip


@pytest.mark.parametrize(("grid", "scoring"), BAD)
def test_a_grid_that_cannot_be_tried_makes_no_folder(grid, scoring, iris, tmp_path):
    with pytest.raises((ValueError, TypeError)):
        run(searching("linear", iris)._replace(grid=grid, scoring=scoring), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_score_that_is_no_number(iris, tmp_path):
    with warnings.catch_warnings(), pytest.raises(ValueError, match="scoring='roc_auc' gives no number"):
        warnings.simplefilter("ignore")
        run(searching("linear", iris)._replace(scoring="roc_auc"), tmp_path / "run")


def test_fits_that_fail_leave_the_other_cells(iris, tmp_path, capsys):
    job = searching("linear", iris)._replace(kind="nu-svc", grid={"nu": [1.0, 0.2]}, holdout=0.1)  # folds: not balanced
    result = run(job, tmp_path / "run")
    assert [np.isnan(cell["mean_score"]) for cell in RunFolder(tmp_path / "run").search["cells"]] == [True, False]
    assert result["search"]["parameters"] == {"nu": 0.2}
    assert "goes on without nu=1.0: specified nu is infeasible" in capsys.readouterr().err
    with pytest.raises(ValueError, match="gives no number in any cell: specified nu is infeasible"):
        run(job._replace(grid={"nu": [1.0]}), tmp_path / "other")


def test_rows_that_folds_cannot_be_cut_from(iris, tmp_path):
    with pytest.raises(ValueError, match=r"\[search\] needs the training samples in memory"):
        run(searching("linear", iris)._replace(memory=1000), tmp_path / "run")


# --- the score that was asked for --------------------------------------------------------------------------------


@pytest.fixture
def rare(tmp_path):
    """Samples of which one in twelve is positive, and hard to tell from the others."""
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 1 / 12).astype(int)
    X = rng.normal(size=(600, 3)) + 0.5 * y[:, None]
    with h5py.File(tmp_path / "rare.h5", "w") as file:
        file["X"], file["y"] = X, y
    return tmp_path / "rare.h5"


def test_test_samples_have_the_score_that_was_asked_for(rare, tmp_path, capsys):
    grid = {"C": [0.1, 1.0]}
    result = run(Job(str(rare), holdout=0.5, grid=grid, folds=3, scoring="roc_auc"), tmp_path / "run")
    model = fastsvm.load(tmp_path / "run" / "model.fastsvm")
    with fastsvm.open_hdf5(rare) as data:
        held = split(600, 0.5, 0)[1]
        X, y = data.X.take(held).read(0, 300).user_array(), data.y[held]
    wanted = roc_auc_score(y, model.decision_function(X))
    assert result["scores"] == {"roc_auc": pytest.approx(wanted)} and wanted > 0.5
    assert (result["accuracy"], result["balanced_accuracy"]) == (pytest.approx(np.mean(y == 0)), 0.5)
    assert result["per_class"] == {"0": 1.0, "1": 0.0}
    said = capsys.readouterr().err
    assert f"note: the model predicts 0 for all 300 rows, of which {np.mean(y == 0):.1%} are." in said
    words = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<span>roc_auc</span>" in words and "Their roc_auc is 0." in words and "50 % of a class on average" in words


def test_a_score_that_test_samples_do_not_have_is_told(rare, tmp_path, capsys):
    with fastsvm.open_hdf5(rare) as data:
        ones = np.flatnonzero(data.y == 0)
        X = data.X.take(ones).read(0, len(ones)).user_array()
    with h5py.File(tmp_path / "test.h5", "w") as file:
        file["X"], file["y"] = X, np.zeros(len(ones), int)
    test = str(tmp_path / "test.h5")
    result = run(
        Job(str(rare), test, kind="logistic", grid={"C": [0.1]}, folds=3, scoring="neg_log_loss"), tmp_path / "run"
    )
    assert result["scores"] == {} and result["accuracy"] == 1
    assert "note: neg_log_loss of the 558 test samples cannot be computed: " in capsys.readouterr().err


def test_the_best_parameters_of_one_class_are_told_too(rare, capsys):
    assert main(["train", str(rare), "--holdout", "0.5", "--class_weight", "balanced"]) == 0
    told = capsys.readouterr()
    assert "balanced accuracy" in told.out and "note: the model predicts" not in told.err
