"""Compilation before the first fit."""

from pathlib import Path

import pytest

from fastsvm._compiled.processor import JIT_DISABLED
from fastsvm.cli import main
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.jobs.warmup import warm_up

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")


def test_what_was_compiled_is_not_compiled_again(capsys):
    warm_up(["sgd"])
    report = warm_up(["sgd"], n_jobs=1)
    assert report["models"] == ["sgd"] and report["n_compiled"] == 0
    assert Path(report["cache"]).is_dir()
    assert main(["warmup", "--model", "sgd"]) == 0
    assert "n compiled" in capsys.readouterr().out


def test_every_estimator_is_fitted(monkeypatch):
    fitted, predicted = [], set()
    for name, kind in ESTIMATORS.items():
        monkeypatch.setattr(kind, "fit", lambda self, X, y, name=name: fitted.append((name, X.dtype, len(y))) or self)
        monkeypatch.setattr(kind, "predict", lambda self, X, name=name: predicted.add((name, X.shape[0] == 1)))
    warm_up(n_jobs=1)
    assert {name for name, _, _ in fitted} == set(ESTIMATORS)
    assert {str(dtype) for name, dtype, _ in fitted if name == "svc"} == {"float64", "float32", "uint8"}
    assert predicted == {(name, is_one) for name in ESTIMATORS for is_one in (False, True)}


FITS = """
import warnings
import numpy as np
from scipy import sparse
from fastsvm import {name}
from fastsvm._compiled.compilations import COMPILATIONS
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, few = rng.normal(size=(500, 30)), rng.normal(size=(30, 100))
words = sparse.hstack([sparse.csr_matrix(np.where(X > 1, X, 0)), sparse.identity(500)], "csr")
for rows in (X, X.astype(np.float32), few, words):
    for n_classes in (2, 3):
        model = {name}().fit(rows, rng.integers(n_classes, size=rows.shape[0]))
        model.predict(rows)
        model.predict(rows[:1])
print(COMPILATIONS.functions)
"""


@pytest.mark.parametrize(("model", "name"), [("sgd", "SGDClassifier"), ("logistic", "LogisticRegression")])
def test_another_process_compiles_nothing(model, name, python, tmp_path):
    """Of the forms of samples that the page on threads lists."""
    warm_up([model], n_jobs=1)
    assert python.run(FITS.format(name=name), tmp_path).strip() == "[]"
