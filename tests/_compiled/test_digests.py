import os
import subprocess
import sys
from importlib import import_module

import pytest
from numba.core.typing.templates import builtin_registry

from fastsvm._compiled.code_cache import PACKAGE, digest
from fastsvm._compiled.processor import PLAIN

pytestmark = pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")

SOURCES = {
    "__init__.py": "from made.shapes import Square\n",
    "helpers.py": '''"""Helpers."""
import math

LIMIT = 3  # of something


def unused(x):
    return x + 1


def twice(x):
    """Double."""
    return 2 * x if x < LIMIT else x
''',
    "area.py": '''from fastsvm._compiled.compiler import generic


@generic
def area(shape):
    """Have bodies elsewhere."""
''',
    "shapes.py": """from typing import NamedTuple

from made.area import area


class Square(NamedTuple):
    side: float


@area.register(Square)
def _square(shape):
    return shape.side**2
""",
    "roots.py": """from numba.extending import overload


def root(x):
    return x**0.5


@overload(root)
def _compiled_root(x):
    return lambda x: x**0.5


vars(root)["compiled"] = _compiled_root
""",
    "solver.py": """from fastsvm._compiled.compiler import jit, jit_in_order
from made import helpers
from made.area import area
from made.helpers import twice as double
from made.roots import root


@jit
def solve(shape, x: int) -> float:
    # A remark.
    return area(shape) * double(x)


@jit
def other(x):
    return root(x)


@jit
def whole(x):
    return helpers.twice(x)


@jit
def doubled(x):
    def inner(x):
        return double(x)

    return inner(x)
""",
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a function that writes the sources, some texts replaced, and returns digests by the name of a function."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which an edit within a second would not replace

    def write(file="solver.py", old="", new=""):
        assert file in SOURCES
        for name, text in SOURCES.items():
            path = tmp_path / "made" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            assert name != file or old in text
            path.write_text(text.replace(old, new) if name == file else text, encoding="utf-8")
        for name in [name for name in sys.modules if name.partition(".")[0] == "made"]:
            del sys.modules[name]
        solver, (square, *_) = import_module("made.solver"), vars(import_module("made.area"))["area"].bodies
        return {name: digest(vars(solver)[name], [square]) for name in ("solve", "other", "whole", "doubled")}

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "made"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "old", "new", "concerned"),
    [
        ("solver.py", "area(shape) *", "area(shape) +", {"solve"}),
        ("solver.py", "return root(x)", "return -root(x)", {"other"}),
        ("solver.py", "@jit\ndef other", "@jit_in_order\ndef other", {"other"}),
        ("solver.py", "import twice as double", "import unused as double", {"solve", "doubled"}),
        ("roots.py", "lambda x: x**0.5", "lambda x: x**0.25", {"other"}),
        ("helpers.py", "2 * x", "3 * x", {"solve", "whole", "doubled"}),
        ("helpers.py", "LIMIT = 3", "LIMIT = 4", {"solve", "whole", "doubled"}),
        ("helpers.py", "x + 1", "x + 2", set()),
        ("shapes.py", "**2", "**3", {"solve"}),
        ("shapes.py", "side: float", "edge: float", {"solve", "other", "whole", "doubled"}),
        ("solver.py", "# A remark.", "# Another remark.\n", set()),
        ("solver.py", "x: int) -> float", "x)", set()),
        ("helpers.py", '"""Double."""', '"""Return twice the number."""', set()),
        ("helpers.py", "# of something", "", set()),
        ("__init__.py", "Square", "_square", set()),
    ],
)
def test_an_edit_changes_the_digests_of_what_it_concerns_alone(made, file, old, new, concerned):
    before, after = made(), made(file, old, new)
    assert {name for name in before if before[name] != after[name]} == concerned


def test_bodies_for_other_classes_change_no_digest(made):
    """A process that has imported more finds the same code."""
    before = made()
    more = "class Disc(NamedTuple):\n    r: float\n\n\narea.register(Disc)(lambda disc: disc.r)\n"
    assert made("shapes.py", "**2\n", f"**2\n\n\n{more}") == before


PROGRAM = """
from fastsvm import probe
from fastsvm._compiled.code_cache import digest
from fastsvm.kernels import RBF
print(digest(probe.value, [RBF]))
"""


def test_edits_of_the_compiler_change_digests_and_nothing_else_does(package):
    """What is not compiled may be edited; code that another compiler made is not loaded."""

    def digest_in(seed):
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        return subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=package.parent, env=environment)

    before = digest_in(seed=1)
    for file in ("tuning/__init__.py", "_compiled/code_cache.py", "probe.py"):
        with open(package / file, "a", encoding="utf-8") as written:
            written.write("\n\ndef more():\n    return 1\n")
    assert digest_in(seed=2) == before
    compiler = package / "_compiled" / "compiler.py"
    text = compiler.read_text(encoding="utf-8")
    compiler.write_text(text.replace('"error_model": "numpy"', '"error_model": "python"'), encoding="utf-8")
    assert digest_in(seed=3) != before


AFTER_PRODUCTS = """
from scipy import sparse
from fastsvm._compiled.code_cache import digest
from fastsvm.linalg import inverted_index
from fastsvm.sources.block import CSRBlock
rows = sparse.csr_matrix([[1.0]])
rows @ rows  # SciPy remembers the type of the product by a hash of text, which differs in each process
print(digest(inverted_index._fill, [CSRBlock]))
"""


def test_what_a_process_has_done_changes_no_digest():
    def digest_in(seed):
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        return subprocess.check_output([sys.executable, "-c", AFTER_PRODUCTS], env=environment)

    assert digest_in(seed=1) == digest_in(seed=2)


def test_digests_cover_what_stands_for_a_function_in_compiled_code():
    for function, kind in builtin_registry.globals:
        for template in getattr(kind, "templates", ()):
            body = getattr(template, "_overload_func", None)
            if body is not None and str(body.__module__).partition(".")[0] == PACKAGE.name:
                assert hasattr(function, "bodies") or vars(function).get("compiled") is body, body
