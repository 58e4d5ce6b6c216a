"""Compiled loops end, whatever values they meet: an interrupt does not reach them, nor does a limit of time.

Values that overflow turn into NaN, and no comparison with NaN is true. So the condition of a compiled `while` loop
bounds a whole number, which each pass through the loop changes. Comparisons of values may end the loop before.
"""

import ast
from pathlib import Path

import pytest

from tests._compiled.test_sums import PACKAGE, is_compiled

BOUNDED_OTHERWISE = {
    "_compiled/vectors.py:codegen",  # writes machine code, and is not compiled itself
    "solvers/kernel_dual/problem.py:_merge_classes",  # each pass goes on in one of two classes
    "kernel_matrix/pairwise/real.py:_sq_distance_of_sparse",  # each pass goes on in one of two rows
    "linalg/inverted_index.py:_place",  # a table that always has a free place
}


def bounded_names(condition):
    """Return the names that a condition bounds; of alternatives, those that each of them bounds."""
    if isinstance(condition, ast.BoolOp):
        parts = [bounded_names(part) for part in condition.values]
        return set.union(*parts) if isinstance(condition.op, ast.And) else set.intersection(*parts)
    if isinstance(condition, ast.Compare) and not isinstance(condition.ops[0], (ast.Eq, ast.Is)):
        sides = [condition.left, *condition.comparators]
        return {node.id for side in sides for node in ast.walk(side) if isinstance(node, ast.Name)}
    return set()


def falls_through(body, names, changed):
    """Return whether a name was changed on the paths to the end of statements, of which there may be none.

    Also return whether a name was changed before each `continue`.
    """
    ends, is_bounded = {changed}, True
    for statement in body:
        if isinstance(statement, ast.AugAssign) and ast.unparse(statement.target) in names:
            ends = {True} if ends else ends
        elif isinstance(statement, ast.Continue):
            return set(), is_bounded and False not in ends
        elif isinstance(statement, (ast.Break, ast.Return)):
            return set(), is_bounded
        elif isinstance(statement, ast.If):
            found = [falls_through(branch, names, end) for branch in (statement.body, statement.orelse) for end in ends]
            ends = set().union(*(end for end, _ in found))
            is_bounded = is_bounded and all(fine for _, fine in found)
    return ends, is_bounded


def unbounded(function):
    """Return whether a pass through a loop of a function may leave alone what bounds the loop."""
    loops = [node for node in ast.walk(function) if isinstance(node, ast.While)]
    found = [falls_through(loop.body, bounded_names(loop.test), False) for loop in loops]
    return any(False in ends or not is_bounded for ends, is_bounded in found)


def test_each_pass_changes_a_whole_number_that_the_condition_bounds():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "fastsvm._compiled" in text:
            functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
            names = {node.name for node in functions if is_compiled(node) and unbounded(node)}
            found |= {f"{Path(path).relative_to(PACKAGE).as_posix()}:{name}" for name in names}
    assert found == BOUNDED_OTHERWISE


@pytest.mark.parametrize(
    ("loop", "is_bounded"),
    [
        ("while True:\n if gap <= tol: break\n take()", False),
        ("while gap > tol:\n gap = step()", False),
        ("while not gap <= tol:\n gap = step()", False),
        ("while gap > tol and steps < most:\n steps += 1", True),
        ("while gap > tol or steps < most:\n steps += 1", False),
        ("while steps < most:\n if gap > tol: steps += 1", False),
        ("while steps < most:\n if gap > tol: continue\n steps += 1", False),
        ("while steps < most:\n if gap > tol: break\n steps += 1", True),
        ("while t < m:\n if x: m -= 1\n else: t += 1", True),
        ("while t < m:\n if x:\n  if y:\n   m -= 1\n   continue\n t += 1", True),
        ("while i > 0 and f[i] != least:\n i -= 1", True),
    ],
)
def test_the_rule(loop, is_bounded):
    assert unbounded(ast.parse(loop)) != is_bounded
