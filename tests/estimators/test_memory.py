"""The memory that a fit adds to its process is at most `memory=`, and a part for the allocator and compiled code.

All fits of a kind are in one process, which loads their code once. Before each that is measured, the process gives
back what it no longer uses.
"""

import functools
import json
from itertools import product
from pathlib import Path

import pytest
from forked import beginning

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks can be reset on Linux only")

CODE = """
import ctypes, gc, json, sys, warnings
import h5py, numpy as np
from scipy import sparse
import fastsvm

kind, given, cases = json.loads(sys.argv[1])
warnings.simplefilter("ignore")
n, d, classes = (5000, 80, 4) if kind in ("SVC", "SVCSearch") else (15_000, 120, 4)
n = 2000 if given.get("solver") == "primal" else n
if given.get("C") == 0.5:
    n, d, classes = 9000, 8, 2  # a table whose kernel rows are not stored

def made(form, name):
    rng = np.random.default_rng(0)
    y = rng.integers(classes if given.get("solver") != "primal" else 2, size=n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X += np.random.default_rng(1).normal(size=(classes, d)).astype(np.float32)[y] / 4
    if form == "bytes":
        X = np.clip(30 * X + 128, 0, 255).astype(np.uint8)
    elif form == "CSR":
        X = sparse.csr_matrix(np.where(X > 1.2, X, 0), dtype=np.float64)
    elif form == "float64":
        X = X.astype(np.float64)
    if name is None:
        return X, y
    with h5py.File(name, "w") as file:
        if form == "CSR":
            group = file.create_group("X")
            group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr
            group.attrs["shape"] = X.shape
        else:
            file.create_dataset("X", data=X, chunks=(128, d))
        file["y"] = y
    return (fastsvm.open_hdf5(name),)

def model(form, budget):
    scaled = given | ({"gamma": 0.01 / 900} if form == "bytes" and "gamma" in given else {})
    if kind == "SVCSearch":
        svc = fastsvm.SVC(gamma=scaled["gamma"], tol=0.01, memory=budget)
        return fastsvm.SVCSearch(svc, {"C": [0.1, 1.0]}, cv=2, error_score="raise")
    return getattr(fastsvm, kind)(memory=budget, **scaled)

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

def added(form, on_disk, budget):
    data = made(form, f"{form}.h5" if on_disk else None)
    model(form, budget).fit(*data)  # compiles, or loads, the code
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    open("/proc/self/clear_refs", "w").write("5")
    before = status("VmRSS")
    model(form, budget).fit(*data)
    return status("VmHWM") - before

print(*(added(*case) for case in cases))
"""
MANY_THREADS = dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "16")
"""Each thread has tiles and buffers of its own, so that machines with many processors need most."""
KINDS = {
    "smo": ("SVC", {"gamma": 0.01, "tol": 0.01}),
    "table": ("SVC", {"gamma": 0.1, "tol": 0.01, "C": 0.5}),
    "coordinate": ("SVC", {"gamma": 0.01, "solver": "coordinate", "tol": 0.01}),
    "primal": ("SVC", {"gamma": 0.01, "solver": "primal", "loss": "squared_hinge", "tol": 0.01}),
    "standardised": ("SVC", {"gamma": 0.01, "standardize": True, "tol": 0.01}),
    "search": ("SVCSearch", {"gamma": 0.01}),
    "LinearSVC": ("LinearSVC", {"C": 1e-4, "tol": 0.01}),
    "NystroemSVC": ("NystroemSVC", {"gamma": 0.01, "n_components": 200, "tol": 0.02, "random_state": 0}),
    "SGDClassifier": ("SGDClassifier", {"max_iter": 2, "tol": None}),
}
FORMS = ("float64", "CSR", "bytes")
ONE_FORM = {
    "coordinate": "bytes",
    "primal": "CSR",
    "table": "float64",
    "standardised": "CSR",
    "search": "float64",
}
CASES = [(name, form, False) for name, form in product(KINDS, FORMS) if ONE_FORM.get(name, form) == form]
ON_DISK = {  # two forms of each
    "smo": ("float64", "bytes"),
    "LinearSVC": ("CSR", "bytes"),
    "NystroemSVC": ("float64", "CSR"),
    "SGDClassifier": ("float64", "CSR"),
}
CASES += [(name, form, True) for name, forms in ON_DISK.items() for form in forms]


def budget_of(name, form, on_disk):
    return (20_000_000, 60_000_000)[(FORMS.index(form) + on_disk) % 2] if name != "table" else 200_000_000


@pytest.fixture(scope="module")
def added(fork_server, tmp_path_factory):
    """Return a function that gives what the fits of a kind add to their process, by form and place."""

    @functools.cache
    def of(name):
        kind, given = KINDS[name]
        cases = [(form, on_disk, budget_of(name, form, on_disk)) for one, form, on_disk in CASES if one == name]
        words = json.dumps([kind, given, cases])
        code = beginning(MANY_THREADS) + 'warnings.simplefilter("ignore")' + CODE
        process = fork_server.start(words, code=code, folder=tmp_path_factory.mktemp(name))
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        return {case[:2]: int(word) for case, word in zip(cases, out.split(), strict=True)}

    return of


@pytest.mark.parametrize(("name", "form", "on_disk"), CASES)
def test_a_fit_stays_within_its_memory(name, form, on_disk, added):
    assert added(name)[form, on_disk] <= 1.1 * budget_of(name, form, on_disk) + 12_000_000
