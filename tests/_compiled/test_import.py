"""What an import of the package loads."""

import pytest

import fastsvm

PROGRAM = """
import sys
from fastsvm import {name}
print(*(module for module in sys.modules if module.startswith("fastsvm.")))
"""


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("SVC", ("linear_dual", "linear_primal", "sgd", "nystroem", "search", "exchange", "formats", "jobs", "dask")),
        ("LinearSVC", ("kernel_dual", "kernel_primal", "estimators.kernel", "sgd", "nystroem", "search", "formats")),
        ("SGDClassifier", ("kernel_dual", "kernel_primal", "estimators.kernel", "nystroem", "search", "exchange")),
    ],
)
def test_an_estimator_loads_no_other_rooms(name, foreign, importing, tmp_path):
    loaded = importing.output(importing.start(PROGRAM.format(name=name), tmp_path)).split()
    assert [module for module in loaded if any(f".{room}" in module for room in foreign)] == []


def test_all_public_names_are_there():
    for name in fastsvm.__all__:
        assert getattr(fastsvm, name) is not None
        assert name in dir(fastsvm)


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="module 'fastsvm' has no attribute 'SVM'"):
        _ = fastsvm.SVM
    with pytest.raises(ImportError, match="cannot import name 'SVM' from 'fastsvm'"):
        exec("from fastsvm import SVM")
