"""Imports point downward only, and each large dependency has its place."""

import ast
from pathlib import Path

import pytest

import fastsvm

PACKAGE = Path(fastsvm.__file__).parent
LAYERS = [
    {"_compiled", "files", "memory"},
    {"kernels", "losses"},
    {"sources"},
    {"linalg"},
    {"kernel_matrix"},
    {"solvers"},
    {"multiclass"},
    {"estimators"},
    {"displays", "persistence"},
    {"__init__"},
    {"demo", "jobs"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def unit(name):
    """Return the layer's entry of a file or of a module below fastsvm."""
    return name.replace(".py", "").replace("/", ".").split(".")[0]


def imports(path):
    """Return the full names of all modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module)
            if node.module == "fastsvm":
                found |= {f"fastsvm.{alias.name}" for alias in node.names}
    return found


def packages(name):
    return {module.split(".")[0] for module in imports(FILES[name])}


def own(name):
    """Return the units of fastsvm that a file imports, "__init__" for the package itself."""
    modules = {module for module in imports(FILES[name]) if module.split(".")[0] == "fastsvm"}
    units = {module.split(".")[1] if "." in module else "__init__" for module in modules}
    return {found if found in LEVEL or found == "formats" else "__init__" for found in units}


@pytest.mark.parametrize("name", [name for name in FILES if unit(name) != "formats"])
def test_imports_point_downward(name):
    above = {other for other in own(name) - {unit(name), "formats"} if LEVEL[other] >= LEVEL[unit(name)]}
    assert not above
    if "formats" in own(name):
        assert LEVEL[unit(name)] >= LEVEL["jobs"]


@pytest.mark.parametrize("name", [name for name in FILES if unit(name) == "formats"])
def test_formats_import_nothing_else_of_the_package_but_how_files_are_written(name):
    assert own(name) <= {"formats", "files"}


@pytest.mark.parametrize("name", FILES)
def test_numba_in_one_folder(name):
    assert unit(name) == "_compiled" or not packages(name) & {"numba", "llvmlite"}


@pytest.mark.parametrize("name", FILES)
def test_h5py_where_files_are(name):
    allowed = unit(name) in {"files", "sources", "formats", "persistence", "jobs", "demo", "cli"}
    assert allowed or name == "estimators/fitting/validation.py" or "h5py" not in packages(name)


@pytest.mark.parametrize("name", FILES)
def test_scikit_learn_from_estimators_upward(name):
    allowed = name == "formats/readers/svmlight.py" or LEVEL.get(unit(name), 0) >= LEVEL["estimators"]
    assert allowed or "sklearn" not in packages(name)


def test_the_imports_are_seen():
    assert packages("_compiled/compiler.py") >= {"numba", "llvmlite"}
    assert "h5py" in packages("sources/hdf5.py")
    assert own("kernel_matrix/row_cache.py") == {"kernel_matrix", "files"}
