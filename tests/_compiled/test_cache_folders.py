import os
import subprocess
import sys

import pytest

from fastsvm._compiled import code_cache
from fastsvm._compiled.processor import PLAIN

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
    assert not list((tmp_path / "second").rglob("*.nbi"))
