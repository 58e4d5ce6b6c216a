"""A process that compiles and one that loads what was compiled find the same bits, in whatever order they fit.

The one that compiles takes callees first, the one that loads takes callers only. One fit suffices for the default:
its machine code has copies of shared callees whose bits differ if the linker mixes them. `FASTSVM_EVERY_FIT=1` takes
all variants of all estimators, which takes some minutes to compile.
"""

import os
from pathlib import Path

import pytest

from fastsvm._compiled.processor import JIT_DISABLED

FITS = """
import runpy, sys, warnings
warnings.simplefilter("default")
sys.argv[1:] = {words}
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
def test_a_fit_has_the_same_bits_where_it_is_compiled_and_where_its_code_is_loaded(importing, tmp_path):
    path = str(Path(__file__).parents[1] / "support" / "every_fit.py")
    which = "all" if os.environ.get("FASTSVM_EVERY_FIT") == "1" else "some"

    def digests(order):
        process = importing.start(FITS.format(words=[which, order], path=path), NUMBA_CACHE_DIR=tmp_path)
        out, err = process.communicate(timeout=3600)
        assert process.returncode == 0, err
        return sorted(out.splitlines())

    cold = digests("forth")
    assert len(cold) >= 1
    assert digests("back") == cold
