"""Other systems, simulated on this one: what docs/reference/portability.md lists, one test for each of its rows."""

import ctypes
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from fastsvm import memory
from fastsvm._compiled import code_cache
from fastsvm.files import atomic_file
from fastsvm.jobs.signals import Stopped, StopSignals, ended_by_signals

AS_ON_WINDOWS = '''
import builtins, os, signal, sys
real_import = builtins.__import__
def no_unix(name, *args, **kwargs):
    if name in ("fcntl", "resource"):
        raise ImportError(name)
    return real_import(name, *args, **kwargs)

def in_use(path):
    """Whether this process has a file open or mapped, as Windows would say."""
    path = os.path.realpath(path)
    with open("/proc/self/maps") as maps:
        if any(line.rstrip().endswith(path) for line in maps):
            return True
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == path:
                return True
        except OSError:
            pass
    return False

def guarded(work):
    def call(*paths, **kwargs):
        if str(paths[0]).startswith(os.getcwd()) and any(in_use(path) for path in paths):
            raise PermissionError(13, "in use by a process", str(paths[0]))
        return work(*paths, **kwargs)
    return call

import sklearn.svm, h5py, numba  # what others do there is not the question
builtins.__import__ = no_unix
os.replace, os.rename, os.unlink, os.remove = map(guarded, (os.replace, os.rename, os.unlink, os.remove))
for name in ("fork", "register_at_fork", "getuid", "pathconf"):
    delattr(os, name)
for name in ("SIGHUP", "SIGALRM", "setitimer"):
    delattr(signal, name)

import numpy as np
import fastsvm
from fastsvm.cli import main
from sklearn.datasets import load_iris

X, y = load_iris(return_X_y=True)
with h5py.File("iris.h5", "w") as file:
    file.create_dataset("X", data=X, chunks=(16, 4))
    file["y"] = y
with fastsvm.open_hdf5("iris.h5") as data:
    model = fastsvm.SVC().fit(data)
for _ in range(2):  # the second replaces the first
    fastsvm.save(model, "iris.model")
assert (fastsvm.load("iris.model").predict(X) == model.predict(X)).all()
open("iris.csv", "w").write("a,b,c,d,y\\n" + "".join(",".join(map(str, row)) + f",{k}\\n" for row, k in zip(X, y)))
open("job.toml", "w").write("[data]\\ntrain = 'iris.csv'\\nholdout = 0.2\\n[search]\\nC = [1.0, 2.0]\\nfolds = 2\\n")
for words in (
    "convert iris.csv again.h5",
    "train iris.h5 -o trained.model",
    "predict trained.model again.h5 -o predictions.csv",
    "predict trained.model again.h5 -o predictions.h5",
    "predict trained.model iris.csv -o predictions.csv --force",
    "run job.toml --folder run",
    "status run",
    "resume run",
):
    assert main(words.split()) == 0, words
left = [name for name in os.listdir(".") if ".part" in name]
assert not left, left
'''


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the simulation looks at /proc")
def test_fits_files_and_commands_as_on_windows(importing, tmp_path):
    """Without fcntl, resource, fork, SIGHUP and SIGALRM, and open files can be neither renamed nor removed."""
    importing.run(AS_ON_WINDOWS, tmp_path)


def test_without_locks_every_file_is_free(monkeypatch, tmp_path):
    monkeypatch.setattr(atomic_file, "fcntl", None)
    assert not atomic_file.has_locks()
    path = tmp_path / "file"
    with path.open("w") as first, path.open("a") as second:
        assert atomic_file.take(first) and atomic_file.take(second) and not atomic_file.is_taken(second)
    with atomic_file.scratch_folder(path) as room:
        assert room.is_dir()
    assert not room.exists()


def test_without_an_alarm_a_signal_ends_the_step_at_once(monkeypatch, heard):
    for name in ("SIGALRM", "setitimer", "SIGHUP"):
        monkeypatch.delattr(signal, name)
    stop = StopSignals()
    with pytest.raises(Stopped) as raised, stop.listening():
        signal.raise_signal(signal.SIGTERM)
    assert raised.value.number == signal.SIGTERM
    with pytest.raises(Stopped), ended_by_signals():
        signal.raise_signal(signal.SIGTERM)


def no_proc(path):
    raise FileNotFoundError(path)


class Windows:
    """Stands for `ctypes.windll.kernel32`."""

    def __init__(self, free, works=1):
        self.kernel32, self._free, self._works = self, free, works

    def GlobalMemoryStatusEx(self, pointer):
        assert pointer._obj.length == ctypes.sizeof(memory._MemoryStatus) == 64
        pointer._obj.free = self._free
        return self._works


def test_available_memory_of_windows(monkeypatch):
    monkeypatch.setattr(memory, "_contents", no_proc)
    monkeypatch.setattr(ctypes, "windll", Windows(6 << 30), raising=False)
    assert memory.available() == 6 << 30
    monkeypatch.setattr(os, "sysconf_names", {}, raising=False)
    monkeypatch.setattr(ctypes, "windll", Windows(0, works=0))
    assert memory.available() == 2 << 30


def test_available_memory_of_macos(monkeypatch):
    monkeypatch.setattr(memory, "_contents", no_proc)
    monkeypatch.setattr(os, "sysconf_names", {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 2}, raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 20, "SC_PAGE_SIZE": 16_384}.get, raising=False)
    assert memory.available() == 8 << 30


def test_peak_memory_elsewhere(monkeypatch):
    resource = pytest.importorskip("resource")
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory.peak_memory() == pytest.approx(here / 1e6, rel=0.1)  # bytes, not kilobytes
    monkeypatch.setitem(sys.modules, "resource", None)
    assert memory.peak_memory() is None


@pytest.mark.parametrize(
    ("platform", "folder"), [("win32", "appdata"), ("darwin", "home/Library/Caches"), ("linux", "home/.cache")]
)
def test_the_cache_folder_is_that_of_the_system(platform, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(code_cache.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in {"HOME": "home", "USERPROFILE": "home", "LOCALAPPDATA": "appdata"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert code_cache._cache_root() == tmp_path / folder


def test_without_numbers_of_users_the_private_folder_has_a_name(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "getuid", raising=False)
    monkeypatch.setenv("USERNAME", "ada")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert code_cache._private_root() == tmp_path / "fastsvm-cache-ada"


def test_without_pathconf_names_have_255_bytes(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "pathconf", raising=False)
    assert atomic_file._longest_name(tmp_path) == 255


def test_the_page_lists_these_tests():
    page = (Path(__file__).parents[1] / "docs" / "reference" / "portability.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(test_\w+)`", page))
    here = {name for name in globals() if name.startswith("test_")} - {"test_the_page_lists_these_tests"}
    assert listed == here
