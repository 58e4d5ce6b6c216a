"""Are curves of objectives compared rightly?"""

from bench.__main__ import main
from bench.harness.competitor import OURS
from bench.harness.outcomes import Result
from bench.harness.suite import Case, Finished
from bench.linear import curves, picture
from bench.linear.parameters import LinearParameters


def case():
    return Case("case", ("sgd",), lambda: None, LinearParameters("hinge", 1e-4))


def test_ours_is_compared_at_the_first_point_that_is_as_good(curve_result, options):
    ours = curve_result(OURS, [1.0, 2.0, 4.0], [0.5, 0.3, 0.2])
    other, better = curve_result("sklearn", [3.0, 5.0, 6.0], [0.9, 0.4, 0.3]), curve_result("numpy", [1.0], [0.1])
    found = curves.compared(other, Finished(case(), (10, 2), [ours, other]))
    assert found["reached"] == {"budget": 2, "seconds": 3.0, "objective": 0.3, "accuracy": 0.9}
    assert found["ratio"] == 3
    assert [point["seconds"] for point in found["curve"]] == [4.5, 7.5, 9.0]
    assert curves.compared(better, Finished(case(), (10, 2), [ours, better]))["reached"] is None
    text = "\n".join(curves.lines([Finished(case(), (10, 2), [ours, other, better])], options))
    assert "not in its epochs" in text
    assert "3.000   3.00" in text


def test_curves_of_those_who_did_not_finish_are_left_out(curve_result, options):
    ours, failed = (
        curve_result(OURS, [1.0], [0.5]),
        Result("sklearn", "timeout", "fit with budget 20 took more than 60 s"),
    )
    finished = [Finished(case(), (10, 2), [ours, failed])]
    assert curves.compared(failed, Finished(case(), (10, 2), [ours, failed])) == {
        "curve": [],
        "reached": None,
        "ratio": None,
    }
    text = "\n".join(curves.lines(finished, options))
    assert "> 60" in text
    assert "case, sklearn: fit with budget 20 took more" in text
    assert picture.figure(finished, "a fit", 60.0)


def test_who_has_not_the_loss_is_skipped_with_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FASTSVM_DATA", raising=False)
    assert main(["sgd", "--case", "mnist-sgd-softmax", "--only", "sklearn", "--out", str(tmp_path)]) == 0
    assert "mnist-sgd-softmax, sklearn is skipped: it has no loss 'softmax'" in capsys.readouterr().out
