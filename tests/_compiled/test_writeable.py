"""Arrays that are read-only use the code that is compiled for others."""

import gc

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher
from scipy import sparse

from fastsvm import SVC, LinearSVC, SGDRegressor
from fastsvm._compiled.writeable import writeable


def locked(value):
    for array in (value.data, value.indices, value.indptr) if sparse.issparse(value) else (value,):
        array.flags.writeable = False
    return value


def compiled():
    """Return the functions that have machine code, with the types of their arguments."""
    ours = [one for one in gc.get_objects() if isinstance(one, CPUDispatcher)]
    return {(one.py_func, types) for one in ours for types in one.overloads}


def test_a_view_of_a_memory_map_keeps_it_alive(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(6.0).reshape(2, 3))
    view = writeable(np.load(tmp_path / "rows.npy", mmap_mode="r").T)
    assert view.flags.writeable and view.flags.f_contiguous
    np.testing.assert_array_equal(view, [[0, 3], [1, 4], [2, 5]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    "model", [SVC(), LinearSVC(random_state=0), SGDRegressor(random_state=0, max_iter=20, tol=None)]
)
def test_nothing_is_compiled_for_read_only_rows(model, form, overlapping):
    X, y = overlapping
    y = y.astype(float) if isinstance(model, SGDRegressor) else y
    expected = model.fit(form(X), y, sample_weight=np.ones(len(y))).predict(form(X))
    before = compiled()
    model.fit(locked(form(X.copy())), locked(y.copy()), sample_weight=locked(np.ones(len(y))))
    for name in {"coef_", "dual_coef_", "support_vectors_"} & vars(model).keys():
        locked(vars(model)[name])
    found = model.predict(locked(form(X.copy())))
    assert compiled() - before == set()
    np.testing.assert_array_equal(found, expected)
