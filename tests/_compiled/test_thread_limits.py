"""The number of threads: settings of Numba, joblib and threadpoolctl, and quotas of containers."""

import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from fastsvm import SVC
from fastsvm._compiled import compiler
from fastsvm._compiled.threads import Pool, at_most

CODE = """
import fastsvm, joblib, numba
from threadpoolctl import threadpool_limits
from fastsvm._compiled.threads import Pool
print(Pool().n_threads)
numba.set_num_threads(2)
print(Pool().n_threads)
with threadpool_limits(1):
    print(Pool().n_threads)
    with Pool.open() as pool:
        print(pool.n_threads)
print(Pool().n_threads)
"""


def test_settings_of_numba_and_limits_of_threadpoolctl(python, tmp_path):
    found = python.output(python.start(CODE, tmp_path, NUMBA_NUM_THREADS=3, OPENBLAS_NUM_THREADS=2)).split()
    assert found == ["3", "2", "1", "1", "2"]


@pytest.fixture
def many(monkeypatch):
    """Pretend that Numba has found eight processors."""
    monkeypatch.setattr(compiler._config, "NUMBA_NUM_THREADS", 8)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    compiler._processor_count.cache_clear()
    yield
    compiler._processor_count.cache_clear()


def test_asking_for_the_number_starts_no_threads(importing):
    code = [
        "from numba.np.ufunc import parallel",
        "from fastsvm._compiled.compiler import thread_count",
        "print(thread_count() > 0, parallel._is_initialized)",
    ]
    assert importing.run("\n".join(code)).split() == ["True", "False"]


def test_the_quota_of_a_container(many, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    assert compiler.thread_count() == 3
    monkeypatch.setenv("NUMBA_NUM_THREADS", "8")
    assert compiler.thread_count() == 8


def test_the_lowest_limit_applies():
    usual = max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
    with at_most(1):
        assert Pool().n_threads == 1
    with threadpool_limits(1):
        assert Pool().n_threads == 1
        SVC().fit([[0.0], [1.0]], [0, 1])
        assert Pool().n_threads == 1
    with threadpool_limits(usual):
        assert Pool().n_threads == compiler.thread_count()


def threads_of_a_worker():
    return Pool().n_threads


def test_processes_of_joblib_share_the_processors(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "4")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    found = Parallel(n_jobs=2)(delayed(threads_of_a_worker)() for _ in range(4))
    assert all(count <= 2 for count in found)
