"""Is the large file what it should be, is one problem solved in both scales, and are both curves compared rightly?"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are not part of the installed package

from bench.linear_parameters import LinearParameters  # noqa: E402
from bench.linear_referee import Weights, objectives  # noqa: E402
from bench.streaming import __main__ as command  # noqa: E402
from bench.streaming.big_file import Plan, drop_from_cache, write  # noqa: E402
from bench.streaming.comparison import LOOPS, claim_is_off, lines, with_times  # noqa: E402
from bench.streaming.figure import figure  # noqa: E402
from bench.streaming.problem import LEVELS, Pixels  # noqa: E402

# --- the file -----------------------------------------------------------------------------------------------


def images():
    """Return twenty images that are far from each other, and their numbers as labels."""
    return np.repeat(np.arange(0, 260, 13, dtype=np.uint8)[:, None], 6, axis=1), np.arange(20)


def test_file_has_every_image_equally_often_with_noise_in_random_order(tmp_path):
    rows, labels = images()
    path = write(tmp_path, Plan(rows=1000, chunk_rows=64, noise=4), rows, labels)
    with h5py.File(path) as file:
        X, y = file["X"][:], file["y"][:]
        assert (file["X"].dtype, file["X"].chunks, X.shape) == (np.uint8, (64, 6), (1000, 6))
    assert np.bincount(y).tolist() == [50] * 20
    assert (np.diff(y) < 0).mean() > 0.4
    noise = X.astype(int) - rows[y]
    assert set(noise.ravel().tolist()) == set(range(-4, 5))
    assert noise[y == 0].min() == 0  # there is nothing below 0
    assert len(np.unique(X, axis=0)) > 900


def test_file_of_the_same_plan_is_taken_and_an_unfinished_one_is_not(tmp_path, monkeypatch):
    rows, labels = images()
    path = write(tmp_path, Plan(100, 10), rows, labels)
    before = path.stat().st_mtime_ns
    assert write(tmp_path, Plan(100, 10), rows, labels) == path
    assert path.stat().st_mtime_ns == before
    assert write(tmp_path, Plan(100, 20), rows, labels) != path
    with pytest.raises(IndexError):
        write(tmp_path, Plan(60, 10), rows, labels[:5])
    assert not list(tmp_path.glob("*.part"))
    monkeypatch.setattr("bench.streaming.big_file._MARGIN", 1e15)
    with pytest.raises(OSError, match="has no room for"):
        write(tmp_path, Plan(200, 10), rows, labels)


def test_file_is_still_there_after_the_system_forgot_it(tmp_path):
    path = write(tmp_path, Plan(100, 10), *images())
    assert drop_from_cache(path) in (True, False)
    with h5py.File(path) as file:
        assert file["X"][:].any()


# --- the scales ---------------------------------------------------------------------------------------------


def test_objective_of_weights_of_bytes_is_that_of_weights_of_pixels():
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(0, 256, (50, 7), dtype=np.uint8), rng.integers(0, 3, 50)
    coef, intercept = rng.normal(size=(3, 7)), rng.normal(size=3)
    (wanted,) = objectives(rows / LEVELS, labels, LinearParameters("hinge", C=0.3), [Weights(coef, intercept)])
    (found,) = objectives(rows, labels, Pixels(0.3), [Weights(coef / LEVELS, intercept)])
    assert found == pytest.approx(wanted, rel=1e-13)


def test_bytes_with_a_large_constant_feature_are_the_same_problem():
    rows, labels = load_digits(n_class=3, return_X_y=True)
    rows, problem = 15 * rows, Pixels(0.5)
    given = {"loss": "hinge", "tol": 1e-9, "max_iter": 1_000_000, "random_state": 0}
    of_pixels = LinearSVC(C=problem.C, **given).fit(rows / LEVELS, labels)
    of_bytes = LinearSVC(C=problem.C_of_bytes, intercept_scaling=LEVELS, **given).fit(rows, labels)
    np.testing.assert_allclose(LEVELS * of_bytes.coef_, of_pixels.coef_, atol=1e-4)
    np.testing.assert_allclose(of_bytes.intercept_, of_pixels.intercept_, atol=1e-4)


def test_penalty_of_the_loop_is_that_of_the_mean_loss():
    assert Pixels(0.2).alpha(50) == LinearParameters("hinge", C=0.2).of_rows(50).alpha == pytest.approx(0.1)


# --- the comparison -----------------------------------------------------------------------------------------


def found(**fit):
    """Return what is measured of three epochs, of the first without an objective, and three points of the loop."""
    history = {
        "time": [1.5, 2.0, 5.0], "objective": [None, 20.0, 10.0], "dual_objective": [None, 5.0, 9.0],
        "gap": [None, 0.75, 0.1], "bytes_read": [10e6, 30e6, 50e6],
    }  # fmt: skip
    points, others = (
        [{"seconds": s, "epochs": s / 100, "objective": value} for s, value in curve]
        for curve in (((1.0, 40.0), (6.0, 20.0), (30.0, 9.5)), ((2.0, 45.0), (4.0, 30.0), (20.0, 10.0)))
    )
    return {
        "asked": {"limit": 30, "rows": 10_000, "features": 3072, "memory": "8MB", "threads": 2},
        "machine": {"cpu": "a processor"},
        "reading": {"first_s": 0.5, "again_s": 0.1, "mb": 30.72, "from_disk": True, "peak_mb": 50.0},
        "fit": {
            "history": history, "seconds": 5.5, "objective": 10.0, "found": 10.0, "epochs": 3, "stopped": "tol",
            "peak_mb": 450.0, **fit,
        },
        "loop": {"points": points, "peak_mb": 300.0},
        "loop without average": {"points": others, "peak_mb": 300.0},
    }  # fmt: skip


def test_each_is_asked_when_the_other_was_as_good():
    both = with_times(found())
    names = "epoch_s", "reads", "read_mb", "objective", "gap", "loop_there_s"
    assert [tuple(point[name] for name in names) for point in both["fit"]["points"]] == [
        (1.5, 3.0, 10.0, None, None, None),
        (0.5, 1.0, 20.0, 20.0, 0.75, 6.0),
        (3.0, 6.0, 20.0, 10.0, 0.1, 20.0),
    ]
    assert [point["fit_there_s"] for point in both["loop"]["points"]] == [2.0, 2.0, None]
    assert [point["fit_there_s"] for point in both["loop without average"]["points"]] == [2.0, 2.0, 5.0]


def test_tables_say_who_was_not_there_and_how_much_memory_was_taken():
    given = found()
    for name in LOOPS:
        given[name]["points"].pop()
    text = "\n".join(lines(with_times(given)))
    assert "31 MB are read once from the disk in 0.5 s (61 MB/s), and again in 0.1 s (307 MB/s)." in text
    assert "not in 30" in text
    assert "the fit's is 0.50 of 900 MB" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["loop", "0.060", "6.000", "20", "1.0e+00", "2.000", "3.0"] in rows
    assert ["loop", "without", "average", "0.040", "4.000", "30", "2.0e+00", "2.000", "2.0"] in rows


def test_claims_that_are_wrong_are_told():
    assert claim_is_off(found(objective=10.000001)) is None
    assert "claims the objective 10.0001, found is 10" in claim_is_off(found(objective=10.0001))


def test_picture_shows_both_above_the_bound():
    drawn = figure(with_times(found()))
    ours, theirs, *_ = drawn.axes[0].lines
    np.testing.assert_allclose(ours.get_ydata(), [20 / 9 - 1, 10 / 9 - 1])
    np.testing.assert_allclose(theirs.get_ydata(), [40 / 9 - 1, 20 / 9 - 1, 9.5 / 9 - 1])
    assert [bar.get_height() for bar in drawn.axes[1].patches] == [1.5, 0.5, 3.0]


# --- the whole ----------------------------------------------------------------------------------------------


def test_quick_run_measures_judges_and_saves(tmp_path, capsys):
    arguments = ["--quick", "--rows", "20000", "--memory", "1MB", "--limit", "3", "--max-iter", "20"]
    assert command.main([*arguments, "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("streaming-*.json")
    assert path.with_suffix(".png").stat().st_size > 1000
    content = json.loads(path.read_text())
    assert content["asked"]["rows"] == 20_000
    assert content["fit"]["objective"] == pytest.approx(content["fit"]["found"], rel=1e-6)
    epochs, loop = content["fit"]["points"], content["loop"]["points"]
    known = [one["objective"] for one in epochs if one["objective"] is not None]
    assert known[-1] < known[0]
    assert len(known) >= len(epochs) - 1
    assert 0 < epochs[0]["after_s"] <= epochs[-1]["after_s"] <= content["fit"]["seconds"]
    assert epochs[0]["read_mb"] > 0.9 * 20_000 * 64 / 1e6
    bounds = [value for value in content["fit"]["history"]["dual_objective"] if value is not None]
    assert max(bounds) <= min(known)
    assert max(bounds) < loop[-1]["objective"] < loop[0]["objective"]
    assert loop[-1]["seconds"] >= 3
    assert all(content[name]["peak_mb"] > 20 for name in ("reading", "fit", *LOOPS))
    assert "SGDClassifier.partial_fit" in capsys.readouterr().out


def test_requests_that_make_no_sense_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FASTSVM_DATA", raising=False)
    for arguments, why in (
        ([], "--folder is needed"),
        (["--folder", str(ROOT / "data")], "is within the repository"),
        (["--folder", str(tmp_path)], "FASTSVM_DATA names no folder"),
    ):
        assert command.main(arguments) == 2
        message = capsys.readouterr().err
        assert why in message
        assert message.count("\n") == 1


def test_wrong_claims_end_the_program_with_one(tmp_path, capsys):
    assert command._show(with_times(found(objective=11.0)), tmp_path) == 1
    assert "FAILED: the fit claims the objective 11, found is 10." in capsys.readouterr().out
