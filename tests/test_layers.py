"""Imports point downward only, and each large dependency has its place."""

import ast
import functools
from graphlib import TopologicalSorter
from pathlib import Path

import fastsvm

PACKAGE = Path(fastsvm.__file__).parent
LAYERS = [
    {"messages", "tuning"},
    {"_compiled", "_interrupt", "files", "memory", "progress_bar"},
    {"formats.readers", "kernels", "losses"},
    {"formats"},
    {"sources"},
    {"linalg"},
    {"kernel_matrix.pairwise"},
    {"kernel_matrix"},
    {"low_rank"},
    {"solvers.outer_loop"},
    {"solvers.kernel_dual", "solvers.linear_dual", "solvers.sgd"},
    {"solvers.kernel_primal"},
    {"multiclass", "solvers"},
    {"estimators.fitting"},
    {"estimators.choice"},
    {"estimators.kernel", "estimators.linear"},
    {"estimators.nystroem"},
    {"estimators.search"},
    {"estimators"},
    {"compression"},
    {"dask", "displays", "persistence"},
    {"exchange"},
    {"__init__"},
    {"jobs.signals"},
    {"jobs.inputs"},
    {"jobs.models"},
    {"jobs.training"},
    {"jobs.report"},
    {"jobs"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(module):
    """Return the entry of `LAYERS` that a module is in, by its name below fastsvm."""
    parts = module.split(".")
    found = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in found if name in LEVEL), "__init__")


def module_of(name):
    """Return the name of a file's module below fastsvm; a package's own file stands for the package."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def imports(path):
    """Return the full names of all modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module)
            if node.module.split(".")[0] == "fastsvm":
                found |= {f"{node.module}.{alias.name}" for alias in node.names if is_module(node.module, alias.name)}
    return found


def is_module(package, name):
    place = PACKAGE.parent.joinpath(*package.split("."), name)
    return place.is_dir() or place.with_suffix(".py").is_file()


def packages(name):
    return {module.split(".")[0] for module in imports(FILES[name])}


def importing(names):
    """Return the files that import one of some packages."""
    return {name for name in FILES if packages(name) & names}


def own(name):
    """Return the rooms of fastsvm that a file imports."""
    modules = {module for module in imports(FILES[name]) if module.split(".")[0] == "fastsvm"}
    return {room(module.removeprefix("fastsvm").removeprefix(".")) for module in modules}


def test_imports_point_downward():
    upward = set()
    for name in FILES:
        here = room(module_of(name))
        upward |= {(name, other) for other in own(name) - {here} if LEVEL[other] >= LEVEL[here]}
    assert not upward


def test_no_file_imports_itself_through_others():
    names = {f"fastsvm.{module_of(name)}".removesuffix(".__init__"): name for name in FILES}
    graph = {name: {names[module] for module in imports(path) & names.keys()} - {name} for name, path in FILES.items()}
    assert graph["sources/base.py"] >= {"sources/block.py"}
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError


def test_formats_import_nothing_else_of_the_package_but_files_bars_and_tuning():
    allowed = {"formats", "formats.readers", "files", "progress_bar", "tuning"}
    assert not {(name, *(own(name) - allowed)) for name in FILES if name.startswith("formats/") and own(name) - allowed}


def test_numba_in_one_folder():
    assert not {name for name in importing({"numba", "llvmlite"}) if not name.startswith("_compiled/")}


def test_h5py_where_files_are():
    allowed = {"files", "sources", "formats", "persistence", "jobs"}
    others = {name for name in importing({"h5py"}) if name.split("/")[0] not in allowed}
    assert others <= {"estimators/fitting/validation.py"}


def test_scikit_learn_from_estimators_upward():
    lowest = LEVEL["estimators.fitting"]
    below = {name for name in importing({"sklearn"}) if LEVEL[room(module_of(name))] < lowest}
    assert below <= {"formats/readers/svmlight.py"}


def test_the_imports_are_seen():
    assert packages("_compiled/processor.py") >= {"numba", "llvmlite"}
    assert "h5py" in packages("sources/hdf5.py")
    rooms = {"kernel_matrix", "kernel_matrix.pairwise", "sources", "files", "_compiled"}
    assert own("kernel_matrix/rows.py") == rooms
    assert own("solvers/kernel_primal/newton.py") >= {"solvers.kernel_dual", "solvers.outer_loop", "kernel_matrix"}
