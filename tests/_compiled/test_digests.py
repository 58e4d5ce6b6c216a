import shutil

import pytest

from fastsvm._compiled.code_cache import PACKAGE, Sources

SOURCES = {
    "__init__.py": "from made.shapes import Square\n",
    "machine/__init__.py": "",
    "machine/generic.py": "def generic(stub): return stub\n",
    "helpers.py": '''"""Helpers."""
import math

LIMIT = 3  # of something


def unused(x):
    return x + 1


def twice(x):
    """Double."""
    return 2 * x if x < LIMIT else x
''',
    "area.py": '''from made.machine.generic import generic


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
""",
    "solver.py": """from made import helpers
from made.area import area
from made.helpers import twice as double
from made.roots import root


def jit(function): return function


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
def late(x):
    from made.helpers import LIMIT

    return LIMIT
""",
}


@pytest.fixture
def made(tmp_path):
    """Return a function that writes the sources, some texts replaced, and returns digests by the name of a function."""

    def write(file="solver.py", old="", new=""):
        assert file in SOURCES
        for name, text in SOURCES.items():
            path = tmp_path / "made" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            assert name != file or old in text
            path.write_text(text.replace(old, new) if name == file else text, encoding="utf-8")
        sources = Sources(tmp_path / "made")
        return {name: sources.digest("solver", name) for name in ("solve", "other", "whole", "late")}

    return write


@pytest.mark.parametrize(
    ("file", "old", "new", "concerned"),
    [
        ("solver.py", "area(shape) *", "area(shape) +", {"solve"}),
        ("solver.py", "return root(x)", "return -root(x)", {"other"}),
        ("roots.py", "lambda x: x**0.5", "lambda x: x**0.25", {"other"}),
        ("helpers.py", "2 * x", "3 * x", {"solve", "whole"}),
        ("helpers.py", "LIMIT = 3", "LIMIT = 4", {"solve", "whole", "late"}),
        ("helpers.py", "x + 1", "x + 2", {"whole"}),
        ("shapes.py", "**2", "**3", {"solve"}),
        ("shapes.py", "side: float", "edge: float", {"solve"}),
        ("solver.py", "# A remark.", "# Another remark.", set()),
        ("solver.py", "x: int) -> float", "x)", set()),
        ("helpers.py", '"""Double."""', '"""Return twice the number."""', set()),
        ("helpers.py", "# of something", "", set()),
        ("__init__.py", "Square", "_square", set()),
    ],
)
def test_an_edit_changes_the_digests_of_what_it_concerns_alone(made, file, old, new, concerned):
    before, after = made(), made(file, old, new)
    assert {name for name in before if before[name] != after[name]} == concerned


def test_edits_change_digests_if_they_are_of_the_machinery_alone(tmp_path):
    """What is not compiled may be edited; code that another compiler made is not loaded."""
    package = shutil.copytree(PACKAGE, tmp_path / "fastsvm", ignore=shutil.ignore_patterns("__pycache__"))

    def digests():
        sources = Sources(package)
        return [sources.digest("solvers.kernel_dual.small", "solve_pairs"), sources.digest("losses.rows", "add_losses")]

    before = digests()
    for file in ("jobs/report/page.py", "cli.py", "estimators/kernel/svc.py", "formats/conversion.py"):
        with open(package / file, "a", encoding="utf-8") as written:
            written.write("\n\ndef more():\n    return 1\n")
    assert digests() == before
    compiler = package / "_compiled" / "compiler.py"
    text = compiler.read_text(encoding="utf-8")
    compiler.write_text(text.replace('"error_model": "numpy"', '"error_model": "python"'), encoding="utf-8")
    assert all(new != old for new, old in zip(digests(), before, strict=True))


def test_all_compiled_functions_are_found_where_they_are_defined():
    sources = Sources(PACKAGE)
    assert sources._node("losses.interface", "loss_value")[0]
    bodies = [key for key in sources._registrations if key == ("losses.interface", "loss_value")]
    assert bodies, "the bodies of losses are registered in files of their own"
