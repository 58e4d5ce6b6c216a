"""A fit that is expected to take long says so, before it begins."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from fastsvm import SVC, SVR, OneClassSVM
from fastsvm.estimators.kernel import prepare
from fastsvm.tuning import KernelTuning, changed, tuned


@pytest.fixture
def soon():
    """Make few samples many, and short times long."""
    with tuned(changed({"kernel": {"many_samples": 500, "timed_samples": 100, "long_seconds": 0.0}})):
        yield


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [400, 300, 5])
    return rng.normal(size=(705, 3)) + y[:, None], y


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_the_time_and_another_estimator_are_named_where_fit_is_called(kind, soon, three):
    words = rf"{kind.__name__} is expected .* minutes .*Nystroem{kind.__name__} takes"
    with pytest.warns(UserWarning, match=words) as told:
        kind().fit(*three)
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "model", [OneClassSVM(), SVC(max_time=60), SVC(solver="coordinate")], ids=["one class", "max_time", "coordinate"]
)
def test_nothing_is_said_where_nothing_else_is_to_do(model, soon, three):
    model.fit(*three)  # warnings are errors


def test_the_model_is_that_without_a_prediction(soon, three):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = SVC().fit(*three)
    expected = SVC(max_time=60).fit(*three)
    np.testing.assert_array_equal(found.dual_coef_, expected.dual_coef_)
    np.testing.assert_array_equal(found.support_, expected.support_)


def test_the_prediction_is_that_of_a_part_and_repeated_samples_count_once(soon, three, monkeypatch):
    shares = []

    def expected_seconds(estimator, task):
        part = task.part(0.25)
        shares.append([np.mean(part.labels >= 0), part.problems.sizes.tolist()])
        return -1.0

    monkeypatch.setattr(prepare, "expected_seconds", expected_seconds)
    X, y = three
    SVC().fit(np.repeat(X, 4, axis=0), np.repeat(y, 4))
    ((share, sizes),) = shares
    assert 0.2 / 4 < share < 0.3 / 4
    assert max(sizes) < 0.3 * 700


def test_seconds_grow_with_the_share(monkeypatch):
    times, shares = [0.0], []

    def part(share):
        shares.append(share)
        return SimpleNamespace(labels=np.zeros(10), run=lambda limits, monitor: times.append(2.0))

    n = 1_000_000
    gram = SimpleNamespace(tuning=KernelTuning())
    task = SimpleNamespace(problems=SimpleNamespace(sizes=np.array([n])), gram=gram, part=part)
    monkeypatch.setattr(prepare.time, "perf_counter", lambda: times[-1])
    assert prepare.expected_seconds(SVC(), task) == pytest.approx(2 * 100**1.7)
    assert shares == [0.01]
