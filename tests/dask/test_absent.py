"""Without Dask the package works, and `fastsvm.dask` says what to install."""

import pytest

pytestmark = pytest.mark.dask

CODE = """
import sys
sys.modules["distributed"] = None
import fastsvm
try:
    import fastsvm.dask
except ImportError as error:
    print(error)
"""


def test_the_error_names_the_extra(importing):
    assert "pip install 'fastsvm[dask]'" in importing.run(CODE)
