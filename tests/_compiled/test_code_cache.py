import os
import subprocess
import sys
import threading

import pytest

from fastsvm._compiled import code_cache
from fastsvm._compiled.code_cache import Claim
from fastsvm._compiled.processor import LEVEL, PLAIN, VERSIONS

NOBODY = 65534


@pytest.fixture
def anew():
    """Forget the folders, before and after a test that changes what decides them."""
    functions = (code_cache.folders, code_cache.writeable_folder)
    for function in functions:
        function.cache_clear()
    yield
    for function in functions:
        function.cache_clear()


def test_a_user_without_a_home_has_a_cache(anew, monkeypatch, tmp_path):
    def homeless(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(code_cache.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(code_cache.Path, "expanduser", homeless)
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    assert code_cache.writeable_folder().parent.parent == tmp_path


def test_a_folder_that_cannot_be_written_to_is_read_and_another_takes_new_code(anew, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(code_cache.numba.config, "CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = code_cache.writeable_folder()
    assert folder.parent.parent == tmp_path
    assert folder.parent.stat().st_mode & 0o077 == 0  # code is loaded from it, so no other user may write there
    assert code_cache.folders() == (tmp_path / "file" / folder.name, folder)


def test_without_any_folder_that_can_be_written_to(anew, monkeypatch, tmp_path):
    def missing():
        raise FileNotFoundError("No usable temporary directory found")

    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(code_cache.numba.config, "CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", missing)
    assert code_cache.writeable_folder() is None
    assert len(code_cache.folders()) == 1


PROGRAM = """
import os
import sys

from numba.core.registry import cpu_target

from fastsvm import probe
from fastsvm.kernels import RBF

cpu_target.target_context.refresh()
if sys.argv[1:]:  # after the imports: another user may not be able to read this Python
    os.setuid(int(sys.argv[1]))
probe.value(RBF(2.0), 3.0)
stats = probe.value.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_code_that_root_compiled_serves_a_user_who_cannot_write_there(package, tmp_path_factory, tmp_path):
    """As in the image of a container, where root compiles and another user runs."""
    cache = tmp_path / "cache"
    for folder in [tmp_path, *tmp_path.parents]:  # pytest makes them for root alone
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(0o755)

    def counts(*user):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "TMPDIR": str(tmp_path / "none"), "HOME": "/none"}
        command = [sys.executable, "-c", PROGRAM, *user]
        return subprocess.check_output(command, cwd=package.parent, env=environment, text=True).split()

    assert counts() == ["0", "1"]  # of the functions that were loaded, and of those that were compiled
    before = sorted(path.name for path in cache.rglob("*"))
    assert counts(str(NOBODY)) == ["1", "0"]
    assert sorted(path.name for path in cache.rglob("*")) == before


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_code_within_the_package_is_loaded_and_nothing_is_written(package, tmp_path):
    """As in a compiled wheel."""

    def counts(cache):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache)}
        return subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=package.parent, env=environment, text=True)

    assert counts("first").split() == ["0", "1"]
    (tmp_path / "first" / "fastsvm-machine-code").rename(package / "_machine_code")
    assert counts("second").split() == ["1", "0"]
    assert not list((tmp_path / "second").rglob("*.nbc"))


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_a_compiled_wheel_for_other_versions_says_so(package, tmp_path):
    (package / "_machine_code").mkdir()
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, cwd=package.parent, env=environment, text=True, capture_output=True, check=True)
    assert ended.stdout.split() == ["0", "1"]
    assert ended.stderr.startswith(f"fastsvm: the machine code of this wheel is not for {VERSIONS} on {LEVEL.name}; ")
    assert ended.stderr.count("\n") == 1


# --- of several processes that need the same code at once, one compiles -------------------------------------

WAITING = """
import sys
import time

from fastsvm import probe
from fastsvm._compiled import numba_internals
from fastsvm.kernels import RBF


def stopped_before_it_stores(self, types, code, store=numba_internals._OurCode.save_overload):
    if self._function.__name__ == "value":
        print("compiled", flush=True)
        sys.stdin.readline()
    store(self, types, code)


def heard(seconds, sleep=time.sleep):
    print("waits", flush=True)
    sleep(seconds)


if sys.argv[1] == "first":
    numba_internals._OurCode.save_overload = stopped_before_it_stores
else:
    time.sleep = heard
probe.value(RBF(2.0), 3.0)
stats = probe.value.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def test_a_claim_that_is_free_is_there_at_once(tmp_path):
    with Claim(tmp_path / "code.lock") as claim:
        assert not claim.has_waited
    assert list(tmp_path.iterdir()) == []


def test_a_claim_waits_for_the_one_before(monkeypatch, tmp_path):
    first, found, waits = Claim(tmp_path / "code.lock"), [], threading.Event()
    monkeypatch.setattr(code_cache.time, "sleep", lambda seconds: waits.set())
    other = threading.Thread(target=lambda: found.append(Claim(tmp_path / "code.lock")))
    other.start()
    assert waits.wait(60)
    assert found == []
    first.release()
    other.join()
    assert found[0].has_waited
    found[0].release()
    with Claim(tmp_path / "code.lock") as third:
        assert not third.has_waited


def test_a_claim_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("fastsvm._compiled.code_cache._WAIT_SECONDS", 0.1)
    with Claim(tmp_path / "code.lock"), Claim(tmp_path / "code.lock") as second:
        assert second.has_waited


def test_where_no_file_can_be_made_nothing_waits(tmp_path):
    with Claim(tmp_path / "missing" / "code.lock") as claim:
        assert not claim.has_waited


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_a_process_waits_for_the_one_that_compiles_the_same(package, tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def started(name):
        return subprocess.Popen(
            [sys.executable, "-c", WAITING, name],
            cwd=package.parent, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    with started("first") as first:
        assert first.stdout.readline() == "compiled\n"
        with started("second") as second:
            assert second.stdout.readline() == "waits\n"
            ended, _ = first.communicate("go on\n")
            assert ended == "0 1\n"  # of the functions that were loaded, and of those that were compiled
            ended, _ = second.communicate()
            assert ended.splitlines()[-1] == "1 0"
    assert not list(tmp_path.rglob("*.lock"))
