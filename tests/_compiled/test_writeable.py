"""Arrays that are read-only use the code that is compiled for others."""

import numpy as np
import pytest
from scipy import sparse

from fastsvm import SVC, LinearSVC, SGDRegressor
from fastsvm._compiled.compiler import jit, writeable
from fastsvm._compiled.numba_internals import _Dispatcher
from fastsvm._compiled.processor import PLAIN


def locked(value):
    for array in (value.data, value.indices, value.indptr) if sparse.issparse(value) else (value,):
        array.flags.writeable = False
    return value


@pytest.fixture
def compiled(monkeypatch):
    """Return the functions of the package that are compiled, or loaded, from now on, with the types of arguments."""
    found, compile_it = [], _Dispatcher.compile

    def compile_and_tell(function, types):
        found.append((function.py_func, types))
        return compile_it(function, types)

    monkeypatch.setattr(_Dispatcher, "compile", compile_and_tell)
    return found


@pytest.mark.skipif(PLAIN, reason="plain Numba compiles without our dispatcher")
def test_what_is_compiled_is_told(compiled):
    first = jit(lambda values: values[0])
    assert first(np.ones(3)) == first(locked(np.ones(3))) == first(np.zeros(2) + 1)
    assert [types[0].mutable for _, types in compiled] == [True, False]


def test_a_view_of_a_memory_map_keeps_it_alive(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(6.0).reshape(2, 3))
    view = writeable(np.load(tmp_path / "rows.npy", mmap_mode="r").T)
    assert view.flags.writeable and view.flags.f_contiguous
    np.testing.assert_array_equal(view, [[0, 3], [1, 4], [2, 5]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    "model", [SVC(), LinearSVC(random_state=0), SGDRegressor(random_state=0, max_iter=20, tol=None)]
)
def test_nothing_is_compiled_for_read_only_rows(model, form, overlapping, compiled):
    X, y = overlapping
    y = y.astype(float) if isinstance(model, SGDRegressor) else y
    expected = model.fit(form(X), y, sample_weight=np.ones(len(y))).predict(form(X))
    compiled.clear()
    model.fit(locked(form(X.copy())), locked(y.copy()), sample_weight=locked(np.ones(len(y))))
    for name in {"coef_", "dual_coef_", "support_vectors_"} & vars(model).keys():
        locked(vars(model)[name])
    found = model.predict(locked(form(X.copy())))
    assert not compiled
    np.testing.assert_array_equal(found, expected)
