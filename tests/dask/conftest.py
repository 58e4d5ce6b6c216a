"""A cluster within the process, data of three kinds, and a watchdog for every test."""

import faulthandler
import os
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits

collect_ignore_glob = [] if find_spec("distributed") else ["test_*.py"]
LONGEST = 600  # seconds of a test that waits for ever; on a machine that is busy with others, some take minutes


@pytest.fixture(scope="session")
def terminal(pytestconfig):
    """Return standard error as it is while pytest captures nothing: what a process captured ends with it."""
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        number = os.dup(2)
    with os.fdopen(number, "w") as file:
        yield file


@pytest.fixture(autouse=True)
def watchdog(terminal):
    """End the process, with all stacks, if a test waits for ever."""
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=terminal)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def client():
    from distributed import Client

    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as found:
        yield found


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300] / 16, y[:300]


@pytest.fixture(scope="session")
def line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    return X, X @ np.arange(5) + 1 + 0.3 * rng.normal(size=300)
