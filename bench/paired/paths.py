"""The paths of a fit that a switch turns off: by which change of the tuning, where they may matter, what they weigh."""

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastsvm

__all__ = ["PATHS", "Weight", "WorthOf", "weight_of"]

PACKAGE = Path(fastsvm.__file__).parent
_KERNEL = ("kernel", "tables", "multiclass", "small", "wide_sparse", "machines")
_LINEAR = ("linear", "linear_machines")
_SGD, _LANDMARKS = ("sgd",), ("landmarks",)


@dataclass(frozen=True)
class WorthOf:
    """A path whose worth is measured.

    Attributes
    ----------
    name : str
        What it does.
    off : dict of str to dict
        The change of the tuning that turns it off.
    suites : tuple of str
        Suites whose fits may take it.
    files : tuple of str
        Files below `fastsvm/` that serve it alone.
    """

    name: str
    off: dict[str, dict[str, Any]]
    suites: tuple[str, ...]
    files: tuple[str, ...] = ()


@dataclass
class Weight:
    """What the files of a path weigh: lines, compiled functions, and the names of their modules."""

    lines: int = 0
    compiled: int = 0
    modules: list[str] = field(default_factory=list)


PATHS = [
    WorthOf("linear: few samples on the weights", {"linear": {"weights": False}}, _LINEAR),
    WorthOf("linear: few samples on their Gram matrix", {"linear": {"gram": False}}, _LINEAR),
    WorthOf("linear: Newton's method of tables", {"linear": {"newton": False}}, _LINEAR),
    WorthOf("linear: Newton directions by conjugate gradients", {"linear": {"conjugate_gradients": False}}, _LINEAR),
    WorthOf("linear: working sets of features", {"linear": {"working_sets": False}}, _LINEAR),
    WorthOf("linear: Hessians are kept", {"linear": {"kept_hessian": False}}, _LINEAR),
    WorthOf(
        "linear: rounds of texts", {"linear": {"rounds": False}}, _LINEAR,
        ("solvers/linear_dual/sparse_rounds.py",),
    ),
    WorthOf("linear: augmented Lagrangian after epochs", {"linear": {"lagrangian": False}}, _LINEAR),
    WorthOf(
        "linear: proximal term of epochs", {"linear": {"proximal": False}}, _LINEAR,
        ("solvers/linear_dual/metric.py",),
    ),
    WorthOf("linear: the metric changes", {"linear": {"metric_changes": False}}, _LINEAR),
    WorthOf("linear: blocks of dense rows", {"linear": {"blocks": False}}, _LINEAR),
    WorthOf("linear: several sweeps over a block", {"linear": {"sweeps": 1}}, _LINEAR),
    WorthOf("linear: Gram matrices of blocks are cached", {"linear": {"cached_grams": False}}, _LINEAR),
    WorthOf("linear: rows that do not change are skipped", {"linear": {"longest_pause": 0}}, _LINEAR),
    WorthOf("linear: sweeps over columns", {"linear": {"columns": False}}, _LINEAR),
    WorthOf(
        "sgd: features of one row merged", {"sgd": {"private": False}}, _SGD, ("solvers/sgd/private_features.py",),
    ),
    WorthOf(
        "sgd: steps on nonzero values alone", {"sgd": {"lazy": False}}, _SGD,
        ("solvers/sgd/sparse_steps.py",),
    ),
    WorthOf("sgd: steps on single sparse rows", {"sgd": {"single_rows": False}}, _SGD),
    WorthOf("sgd: several epochs of few rows in a call", {"sgd": {"together": False}}, _SGD),
    WorthOf("landmarks: rows mixed", {"nystroem": {"mixed": False}}, _LANDMARKS),
    WorthOf("landmarks: few features in double precision", {"nystroem": {"exact_values": 0}}, _LANDMARKS),
    WorthOf("landmarks: features in half precision", {"nystroem": {"halves": False}}, _LANDMARKS),
    WorthOf(
        "kernel: small problems in compiled calls", {"kernel": {"small": False}}, _KERNEL,
        ("solvers/kernel_dual/small.py", "kernel_matrix/rows_on_demand.py"),
    ),
    WorthOf("kernel: one working set is the problem", {"kernel": {"whole": False}}, _KERNEL),
    WorthOf("kernel: rows that cannot move leave the one working set", {"kernel": {"movable_share": 0.0}}, _KERNEL),
    WorthOf(
        "kernel: rows for changed multipliers only", {"kernel": {"long_rows": 1 << 60}}, _KERNEL
    ),
    WorthOf(
        "kernel: no stored rows", {"kernel": {"recomputed_ns": -1.0}}, _KERNEL
    ),
    WorthOf("kernel: Newton steps on free rows", {"kernel": {"newton": False}}, _KERNEL),
    WorthOf(
        "kernel: interior point", {"kernel": {"interior": False}}, _KERNEL,
        ("solvers/kernel_dual/interior_point.py",),
    ),
    WorthOf(
        "kernel: equal rows merged", {"kernel": {"merged": False}}, _KERNEL, ("estimators/kernel/duplicate_rows.py",)
    ),
    WorthOf(
        "kernel: products of bytes", {"kernel": {"byte_products": False}}, _KERNEL,
        ("kernel_matrix/pairwise/uint8.py",),
    ),
]  # fmt: skip

_COMPILES = {"jit", "jit_in_order", "outlined", "inlined", "generic"}


def weight_of(path: WorthOf) -> Weight:
    """Return what the files of a path weigh."""
    found = Weight()
    for name in path.files:
        text = (PACKAGE / name).read_text(encoding="utf-8")
        found.lines += len(text.splitlines())
        found.compiled += sum(_is_compiled(node) for node in ast.walk(ast.parse(text)))
        found.modules.append("fastsvm." + name.removesuffix(".py").replace("/", "."))
    return found


def _is_compiled(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    names = (one.func if isinstance(one, ast.Call) else one for one in decorators)
    return any(getattr(one, "id", getattr(one, "attr", "")) in _COMPILES for one in names)
