"""A process that compiles and one that loads what was compiled find the same bits, in whatever order they fit.

The one that compiles takes callees first, the one that loads takes callers only. One fit suffices for the default:
its machine code has copies of shared callees whose bits differ if the linker mixes them. `FASTSVM_EVERY_FIT=1` takes
all variants of all estimators, which takes some minutes to compile.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastsvm._compiled.processor import JIT_DISABLED


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
def test_a_fit_has_the_same_bits_where_it_is_compiled_and_where_its_code_is_loaded(tmp_path):
    which = "all" if os.environ.get("FASTSVM_EVERY_FIT") == "1" else "some"

    def digests(order):
        command = [sys.executable, str(Path(__file__).parents[1] / "support" / "every_fit.py"), which, order]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=3600)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())

    cold = digests("forth")
    assert len(cold) >= 1
    assert digests("back") == cold
