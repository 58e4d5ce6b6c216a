"""What all displays share."""

import sys
import warnings

import pytest
from sklearn.exceptions import NotFittedError

from fastsvm import SVC, SVR, SGDClassifier, SVCSearch
from fastsvm.displays import (
    ConfusionDisplay,
    ConvergenceDisplay,
    MarginDisplay,
    SearchDisplay,
    TemplatesDisplay,
    TubeDisplay,
)


def test_matplotlib_is_imported_where_something_is_drawn(importing):
    before = "import fastsvm, sys; print('fastsvm.displays' in sys.modules)"
    after = "import fastsvm.displays; print('matplotlib' in sys.modules)"
    assert importing.run(f"{before}; {after}").split() == ["False", "False"]


def test_without_matplotlib(monkeypatch, moons, moons_model, digits, digits_model, wave, wave_model):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    calls = [
        lambda: MarginDisplay.from_estimator(moons_model, *moons),
        lambda: ConvergenceDisplay.from_estimator(moons_model),
        lambda: TemplatesDisplay.from_estimator(digits_model, (8, 8)),
        lambda: ConfusionDisplay.from_estimator(digits_model, *digits, (8, 8)),
        lambda: TubeDisplay.from_estimator(wave_model, *wave),
        lambda: SearchDisplay.from_search(SVCSearch()),
    ]
    for call in calls:
        with pytest.raises(ImportError, match=r"pip install 'fastsvm\[plot\]'"):
            call()


def test_those_that_are_not_fitted(moons):
    for call in (
        lambda: MarginDisplay.from_estimator(SVC(), *moons),
        lambda: ConvergenceDisplay.from_estimator(SVC()),
        lambda: TemplatesDisplay.from_estimator(SGDClassifier(), (1, 2)),
        lambda: ConfusionDisplay.from_estimator(SVC(), *moons, (1, 2)),
        lambda: TubeDisplay.from_estimator(SVR(), *moons),
        lambda: SearchDisplay.from_search(SVCSearch()),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_drawing_warns_of_nothing(tmp_path, digits, digits_model, long_fit, wave, wave_model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        displays = [
            ConfusionDisplay.from_estimator(digits_model, *digits, (8, 8), labels=[0, 1, 2]),
            TemplatesDisplay.from_estimator(digits_model, (8, 8)),
            ConvergenceDisplay.from_estimator(long_fit, y="violation"),
            ConvergenceDisplay.from_estimator(digits_model, y="loss"),
            TubeDisplay.from_estimator(wave_model, *wave),
        ]
        for number, display in enumerate(displays):
            display.figure_.savefig(tmp_path / f"{number}.svg")
            display.figure_.savefig(tmp_path / f"{number}.png")
