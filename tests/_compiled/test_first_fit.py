"""How many functions a first fit and a first prediction call, each of which is compiled and loaded for itself."""

import pytest

from fastsvm._compiled.processor import PLAIN

PROGRAM = """
import gc
import warnings

from sklearn import datasets

from fastsvm import {name}
from fastsvm._compiled.numba_internals import _Dispatcher, _is_linked_only

warnings.simplefilter("ignore")
X, y = datasets.load_{data}(return_X_y=True)
{name}().fit(X, y).predict(X)
functions = [each for each in gc.get_objects() if isinstance(each, _Dispatcher)]
print(sum(not _is_linked_only(code) for each in functions for code in each.overloads.values()))
"""


@pytest.mark.skipif(PLAIN, reason="plain Numba compiles all functions")
@pytest.mark.parametrize(
    ("name", "data", "most"),
    [
        ("SVC", "iris", 13),
        ("SVR", "diabetes", 9),
        ("LinearSVC", "iris", 2),
        ("LogisticRegression", "iris", 2),
        ("SGDClassifier", "iris", 5),
    ],
)
def test_a_first_answer_needs_few_functions(name, data, most, importing):
    assert int(importing.run(PROGRAM.format(name=name, data=data))) <= most
