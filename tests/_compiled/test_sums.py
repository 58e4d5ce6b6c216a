"""Sums have the same bits wherever their arrays lie in memory.

Compiled sums may be reordered. Where a loop also writes an array, the machine code asks how far that lies from those
that are read, and sums in another order if they are neighbours. So a loop that sums does not write.
"""

import ast
from pathlib import Path

import numpy as np
import pytest

import fastsvm
from fastsvm._compiled.compiler import jit
from fastsvm.losses import Hinge, WestonWatkins, add_losses
from fastsvm.sources.statistics import _finish

PACKAGE = Path(fastsvm.__file__).parent
COMPILED = {"jit", "inlined", "outlined", "register"}
IN_SEQUENCE = {
    "estimators/kernel/duplicate_rows.py:_sums_before",  # all partial sums are written
    "solvers/kernel_dual/small.py:_improve",  # whole numbers, and whole arrays
    "solvers/linear_dual/dense_epochs.py:_process_blocks",  # places that other arrays tell
    "solvers/linear_dual/one_class.py:_exchange_sparse",
    "solvers/linear_primal/sweeps.py:minimise",  # each place has loops of its own
    "solvers/sgd/sparse_steps.py:_batch_steps",  # whole numbers
    "solvers/sgd/sparse_steps.py:_move_by_feature",
    "sources/windows.py:_permute",
}
"""Functions whose loops write and sum, and that processors cannot do in another order."""


def is_compiled(function):
    names = {ast.unparse(each).split("(")[0].split(".")[-1] for each in function.decorator_list}
    hints = function.returns or any(each.annotation for each in function.args.args)
    return bool(names & COMPILED) or not (names or hints)  # bodies of generic functions have no hints


def is_sum(node):
    """Return whether a statement adds a number to a name; the results of comparisons are whole numbers."""
    if isinstance(node, ast.AugAssign):
        counts = isinstance(node.value, (ast.Constant, ast.Compare))
        return isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.target, ast.Name) and not counts
    return False


def writes(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(isinstance(part, ast.Subscript) for target in targets for part in ast.walk(target))


def test_loops_that_sum_do_not_write():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "fastsvm._compiled" not in text:
            continue
        functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        for function in filter(is_compiled, functions):
            for loop in ast.walk(function):
                inner = list(ast.walk(loop))
                innermost = isinstance(loop, ast.For) and not any(isinstance(node, ast.For) for node in inner[1:])
                if innermost and any(map(is_sum, inner)) and any(map(writes, inner)):
                    found.add(f"{path.relative_to(PACKAGE).as_posix()}:{function.name}")
    assert found == IN_SEQUENCE


@jit
def added(loss, scores, targets, weights, balance, gradient):
    return add_losses(loss, scores, targets, weights, balance, gradient)


def neighbours(memory, first, shape, gap):
    """Return a copy of an array within some memory, and another one that begins some values behind its end."""
    size = int(np.prod(shape))
    own, other = memory[: first.size].reshape(first.shape), memory[first.size + gap : first.size + gap + size]
    own[:] = first
    return own, other.reshape(shape)


@pytest.mark.parametrize("loss", [Hinge(), WestonWatkins()], ids=["hinge", "weston_watkins"])
@pytest.mark.parametrize("n", [5, 8, 19])
def test_losses(loss, n):
    rng = np.random.default_rng(0)
    shape = (1, n) if isinstance(loss, WestonWatkins) else (n, 1)
    targets = np.zeros(1) if shape[0] == 1 else rng.choice([-1.0, 1.0], n)
    for _ in range(50):
        scores, weights, memory, found = rng.normal(size=shape), rng.random(shape[0]), np.empty(1000), set()
        for gap in (0, 3, 6, 12, 30, 60, 500):
            here, gradient = neighbours(memory, scores, shape, gap)
            found.add(added(loss, here, targets, weights, np.ones(shape[1]), gradient))
        assert len(found) == 1


@pytest.mark.parametrize("d", [8, 19])
def test_variances(d):
    rng = np.random.default_rng(0)
    for _ in range(50):
        mean, squares, memory, found = rng.normal(size=d), rng.random(d), np.empty(1000), set()
        for gap in (0, 3, 6, 12, 30, 60, 500):
            here, there = neighbours(memory, mean, d, gap)
            there[:] = squares
            found.add(_finish(here, there, 3.0, np.zeros(d)))
        assert len(found) == 1
