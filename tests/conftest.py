"""What all tests share: the naive oracles on the path, data sets, and fresh processes."""

import gc
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

# Threads of BLAS and OpenMP that wait for work sleep: awake they take processors from the tests of another process.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import h5py
import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from scipy import sparse
from sklearn import datasets

import fastsvm
from fastsvm import open_hdf5
from fastsvm.tuning import changed, tuned

# Processes that tests start use the same copy of the package: code of an installed one would be compiled once more.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "support"))

from csr_group import write_csr
from forked import OURS, THEIRS, Forks, beginning

settings.register_profile("fastsvm", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("fastsvm")


SHARED_CODE = {"sgd": ("sgd", "partial_fit", "loss_curve"), "kernel": ("kernel", "one_class"), "linear": ("linear",)}
LONG = (
    "estimator_checks", "dask", "gallery", "checkpointer", "realdata", "cold_and_warm", "fuzz", "test_memory",
    "quantized_fits", "test_runs", "portability", "test_registry",
)  # fmt: skip
"""Files that take long: one that came last would have the other processes wait."""


def group_of(name):
    """Return the rank and the name of the group of a test, by its name, which begins with the path of its file.

    Tests of the same solvers are one group: two processes would both compile them at the same time. All others are
    grouped by files. They come later, when most of what they need is compiled.
    """
    path = name.partition("::")[0]
    for rank, (group, words) in enumerate(SHARED_CODE.items()):
        if any(word in path for word in words):
            return rank, group
    return len(SHARED_CODE) + (not any(word in path for word in LONG)), path


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: group_of(item.nodeid)[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Send one report of a test that passes, and not six messages: with pytest-xdist, another process reads them."""
    option = item.config.option
    if not hasattr(item.config, "workerinput") or option.durations is not None or getattr(option, "xmlpath", None):
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            report.keywords = {}  # whose names nobody looks up
            item.ihook.pytest_runtest_logreport(report=report)
    return True


class Names(list):
    """A list of names that knows the place of each."""

    def __init__(self, names):
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(self)}

    def index(self, name):
        return self._places[name]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Have one process run all tests of a group, and begin the groups in their order.

    Marks of groups would do the former, but pytest-xdist 3.8 does not see them with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)[1]

        def add_node_collection(self, node, collection):
            super().add_node_collection(node, collection)
            self.registered_collections[node] = Names(self.registered_collections[node])

    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_configure(config):
    """Look for no garbage before all tests are collected: there is little, and each time all that was imported."""
    gc.disable()


def pytest_collection_finish(session):
    """Keep the collector of garbage from looking at all that was imported, and is compiled, again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def standardised(X):
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


@pytest.fixture(scope="session")
def data_sets():
    """Return (X, y) by name; features have mean 0 and variance 1."""
    found = {"iris": datasets.load_iris(return_X_y=True)}
    found["breast_cancer"] = datasets.load_breast_cancer(return_X_y=True)
    X, y = datasets.load_digits(return_X_y=True)
    found["digits"] = X[:300], y[:300]
    return {name: (standardised(X), y) for name, (X, y) in found.items()}


@pytest.fixture(scope="session")
def overlapping():
    """Return 150 rows of two classes that overlap, in no order."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=150) > 0.7).astype(int)
    return X, y


@pytest.fixture(scope="session")
def three_classes():
    """Return 120 rows of three classes that overlap, in no order."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 3)) + np.eye(3)[y]
    return X, y


@pytest.fixture
def choose():
    """Return a function that changes the tuning for the rest of a test, by rooms and numbers."""
    with ExitStack() as stack:
        yield lambda **rooms: stack.enter_context(tuned(changed(rooms)))


@pytest.fixture
def stored(tmp_path, choose):
    """Return a function that puts rows in a file, dense or sparse, of many blocks."""
    choose(storage={"block_bytes": 400})
    opened = []

    def put(X, y=None):
        path = tmp_path / f"{len(opened)}.h5"
        with h5py.File(path, "w") as file:
            if sparse.issparse(X):
                group = file.create_group("X")
                write_csr(group, X)
            else:
                file["X"] = X
            if y is not None:
                file["y"] = y
        opened.append(open_hdf5(path))
        return opened[-1]

    yield put
    for data in opened:
        data.close()


@pytest.fixture
def heard():
    """Let a test and processes that it starts hear of SIGHUP and SIGINT, though tests may run where they are ignored.

    `nohup` starts its command so, and a shell so starts what runs in the background.
    """
    usual = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Python:
    """Fresh processes, several at once."""

    @staticmethod
    def start(code, folder=None, **environment):
        kept = "NUMBA_CACHE_DIR"  # processes share machine code with the tests
        variables = {key: value for key, value in os.environ.items() if key == kept or not key.startswith("NUMBA_")}
        variables |= {key: str(value) for key, value in environment.items()}
        command = [sys.executable, "-W", "error", "-c", code]
        return subprocess.Popen(
            command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    @staticmethod
    def output(process):
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()  # one that does not end would slow down all tests to come
        assert process.returncode == 0, err
        return out.strip()

    @classmethod
    def run(cls, code, folder=None, **environment):
        return cls.output(cls.start(code, folder, **environment))


@pytest.fixture(scope="session")
def python():
    return Python


@pytest.fixture(scope="session")
def fork_server(importing_server):
    forks = Forks(*OURS, others=None if importing_server is Python else importing_server.forks)
    yield forks
    forks.close()


@pytest.fixture
def forks(fork_server):
    """Start processes that have imported fastsvm already; kill those that the test leaves."""
    yield fork_server
    fork_server.end_all()


class Importing(Python):
    """Processes that import fastsvm, and have imported already what fastsvm imports."""

    def __init__(self):
        self.forks = Forks(*THEIRS)

    def start(self, code, folder=None, err=None, **environment):
        variables = {key: str(value) for key, value in environment.items()}
        return self.forks.start(code=beginning(variables) + code, folder=folder, err=err)

    def run(self, code, folder=None, **environment):
        return self.output(self.start(code, folder, **environment))


@pytest.fixture(scope="session")
def importing_server():
    if not hasattr(os, "fork"):
        yield Python
        return
    importing = Importing()
    yield importing
    importing.forks.close()


@pytest.fixture
def importing(importing_server):
    """Start processes as `python` does, sooner where there is `fork`, and kill those that the test leaves."""
    yield importing_server
    if importing_server is not Python:
        importing_server.forks.end_all()


PROBE = """
from fastsvm._compiled.compiler import jit
from fastsvm.kernels import kernel_value

@jit
def value(kernel, dot):
    return kernel_value(kernel, dot, dot, dot + dot)
"""


@pytest.fixture
def package(tmp_path):
    """Return a copy of the kernels and of what compiles them, with a small compiled function in `probe.py`."""
    whole, copy = Path(fastsvm.__file__).parent, tmp_path / "copy" / "fastsvm"
    for folder in ("_compiled", "tuning"):
        shutil.copytree(whole / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("kernels.py", "messages.py"):
        shutil.copy(whole / file, copy)
    (copy / "__init__.py").write_text("")
    (copy / "probe.py").write_text(PROBE)
    return copy
