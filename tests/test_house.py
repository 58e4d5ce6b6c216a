"""Limits that keep the package readable: lines of a file, files of a folder, arguments of a function."""

import ast
import functools
from collections import Counter
from pathlib import Path

import fastsvm

PACKAGE = Path(fastsvm.__file__).parent
ROOT = Path(__file__).parents[1]
MOST_LINES, MOST_FILES = 700, 15
MOST_COMPILED, MOST_PYTHON = 7, 8
FILES = {
    path.relative_to(root.parent).as_posix(): path
    for root in (PACKAGE, ROOT / "tests", ROOT / "bench")
    for path in sorted(root.rglob("*.py"))
}
MOST_LINES_OF_PACKAGE, MOST_FILES_OF_PACKAGE, MOST_ANY = 46_250, 212, 125
"""The package shrinks: a change that needs more lines takes as many out elsewhere, or says why it does not.

Opened samples, probabilities and proofs of searches came at once; the lines above 46,000 are to go again.
"""
TOO_MANY_ARGUMENTS: dict[str, int] = {}
"""Functions that may have so many arguments; the list only shrinks."""


STORAGE = ("fastsvm/sources/", "fastsvm/formats/")
"""The rooms that know how and where rows are stored."""
MAY_ASK = {
    # Products take other machine code for sparse rows than for dense ones.
    "estimators/kernel/duplicate_rows.py": 1,
    "estimators/kernel/kernel_parameter.py": 6,
    "estimators/kernel/prediction.py": 3,
    "estimators/linear/base_sgd.py": 1,
    "estimators/linear/prediction.py": 1,
    "estimators/linear/training_task.py": 2,
    "kernel_matrix/accurate_sums.py": 1,
    "kernel_matrix/pairwise/real.py": 4,
    "linalg/linear_predictor.py": 1,
    "linalg/sparse_products.py": 1,
    "solvers/linear_dual/coordinate_ascent.py": 2,
    "solvers/linear_dual/one_class.py": 5,
    "solvers/linear_dual/problem.py": 3,
    "solvers/linear_dual/shards.py": 2,
    "solvers/linear_primal/proximal_newton.py": 1,
    "solvers/linear_primal/quadratic_model.py": 1,
    "solvers/linear_primal/sweeps.py": 1,
    "solvers/sgd/dense_steps.py": 1,
    "solvers/sgd/private_features.py": 1,
    "solvers/sgd/solver.py": 2,
    # Another way is faster for sparse rows, or for those that each pass reads from a file.
    "estimators/choice.py": 5,
    "estimators/kernel/prepare.py": 5,
    "estimators/linear/base_linear_svm.py": 7,
    "estimators/linear/sgd_fit.py": 2,
    "estimators/nystroem/exact_bounds.py": 4,
    "estimators/nystroem/nystroem_machine.py": 2,
    "estimators/search/shared_fits.py": 1,
    "estimators/search/svc_search.py": 1,
    "kernel_matrix/gram.py": 5,
    "kernel_matrix/rows.py": 1,
    "solvers/kernel_dual/dual_gradient.py": 1,
    "solvers/linear_dual/augmented_lagrangian.py": 3,
    "solvers/linear_dual/metric.py": 7,
    # Users pass matrices of SciPy; models and shards keep them.
    "dask/svc.py": 2,
    "dask/linear.py": 2,
    "dask/rows.py": 5,
    "dask/sgd_classifier.py": 1,
    "dask/shards.py": 1,
    "estimators/fitting/validation.py": 2,
    "estimators/kernel/machines/kernel_machine.py": 2,
    "exchange/imported.py": 3,
    "exchange/scikit_learn.py": 2,
    "jobs/models.py": 2,
    "jobs/training/train.py": 1,
    "persistence/model_checks.py": 4,
    "persistence/model_file.py": 1,
}
"""So many places of a file may ask whether rows are dense, sparse or on disk; the list only shrinks."""


@functools.cache
def lines(path):
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


@functools.cache
def tree(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def functions(path):
    """Return (name, function) of all functions of a file, those of classes as Class.name."""
    found = []

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append((prefix + child.name, child))
                walk(child, f"{prefix}{child.name}.")
            else:
                walk(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    walk(tree(path), "")
    return found


def is_compiled(function):
    """Return whether a decorator compiles a function, or registers it as a body of one that is compiled."""
    names = {ast.unparse(each).split("(")[0].split(".")[-1] for each in function.decorator_list}
    return bool(names & {"jit", "inlined", "generic", "register", "overload"})


def arguments(function):
    """Return the number of arguments that a caller passes; those with `*` or `**` count as one each."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    starred = (given.vararg is not None) + (given.kwarg is not None)
    return len([name for k, name in enumerate(names) if not (k == 0 and name in ("self", "cls"))]) + starred


def counts(name, path):
    """Return the functions of a file with more arguments than allowed, and how many they have."""
    found = {}
    for function, node in functions(path):
        limit = MOST_COMPILED if is_compiled(node) else MOST_PYTHON
        is_estimator = name.startswith(("fastsvm/estimators/", "fastsvm/dask/")) and function.endswith(".__init__")
        if arguments(node) > limit and not is_estimator:
            found[f"{name}:{function}"] = arguments(node)
    return found


def test_files_are_short():
    assert not {name: lines(path) for name, path in FILES.items() if lines(path) > MOST_LINES}


def test_folders_have_few_files():
    sizes = Counter(path.parent for path in FILES.values())
    assert not {str(folder): size for folder, size in sizes.items() if size > MOST_FILES}


def test_the_package_grows_on_purpose_alone():
    of_package = [path for name, path in FILES.items() if name.startswith("fastsvm/")]
    assert len(of_package) <= MOST_FILES_OF_PACKAGE
    assert sum(map(lines, of_package)) <= MOST_LINES_OF_PACKAGE


def test_few_types_are_any():
    of_package = [path for name, path in FILES.items() if name.startswith("fastsvm/")]
    nodes = (node for path in of_package for node in ast.walk(tree(path)))
    assert sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes) <= MOST_ANY


@functools.cache
def kinds_of_storage():
    """Return the names of the classes of sources and blocks."""
    trees = [tree(path) for name, path in FILES.items() if name.startswith(STORAGE[0])]
    return {node.name for each in trees for node in ast.walk(each) if isinstance(node, ast.ClassDef)} | {"Block"}


def asks_of_storage(node):
    """Return whether an expression asks whether rows are dense, sparse or on disk."""
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).split(".")[-1]
        kinds = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & kinds_of_storage()
        return called == "issparse" or (called == "isinstance" and bool(kinds))
    if isinstance(node, ast.Compare):
        return ast.unparse(node).endswith((".block is None", ".block is not None"))
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in ("sparse", "resident")


def test_few_places_ask_how_rows_are_stored():
    found = {
        name.removeprefix("fastsvm/"): sum(map(asks_of_storage, ast.walk(tree(path))))
        for name, path in FILES.items()
        if name.startswith("fastsvm/") and not name.startswith(STORAGE)
    }
    assert kinds_of_storage() >= {"CSRBlock", "DenseBlock", "HDF5Source", "MemorySource", "Source"}
    assert sum(found.values()) > 50
    assert not {name: n for name, n in found.items() if n > MAY_ASK.get(name, 0)}


def test_functions_have_few_arguments():
    found = {}
    for name, path in FILES.items():
        if name.startswith("fastsvm/"):
            found |= counts(name, path)
    assert found == TOO_MANY_ARGUMENTS


def test_compiled_functions_are_told_from_others():
    found = [
        is_compiled(node) for name, path in FILES.items() if name.startswith("fastsvm/") for _, node in functions(path)
    ]
    assert found.count(True) > 100 and found.count(False) > 500
