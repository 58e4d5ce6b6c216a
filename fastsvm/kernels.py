"""Kernels: each a NamedTuple of its parameters, one scalar map, and one line of the table `KERNELS`.

A kernel is a scalar function of a pairing of two rows: of their dot product and squared norms, or of their
Manhattan distance. The same map serves training and prediction, dense and sparse rows, memory and disk.
To add a kernel, write its class, register its map, and add it to the table.
"""

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fastsvm._jit import exp, generic, jit

__all__ = ["KERNELS", "RBF", "Exponential", "Kernel", "Laplacian", "Linear", "Polynomial", "Sigmoid"]


class Kernel(Protocol):
    """What the rest of the package asks of a kernel."""

    pairing: ClassVar[str]
    """`"dot"` if the map takes dot products, `"manhattan"` if it takes L1 distances."""
    translation_invariant: ClassVar[bool]
    """Whether k(x - c, z - c) = k(x, z), so that rows may be centred to keep their products accurate."""

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the error of a value when dot products of rows are rounded to `eps` times `sq_norm`."""
        ...


@generic
def kernel_value(kernel: Kernel, pairing: float, sq_x: float, sq_z: float) -> float:
    """Return k(x, z) from the pairing of x and z and, for dot products, their squared norms."""


class Linear(NamedTuple):
    """k(x, z) = x·z."""

    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of the dot product."""
        return eps * sq_norm


@kernel_value.register(Linear)
def _linear(kernel, dot, sq_x, sq_z):
    return dot


class Polynomial(NamedTuple):
    """k(x, z) = (gamma x·z + coef0)^degree."""

    gamma: float
    coef0: float
    degree: int
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: relative error of the base, `degree` times over."""
        base = abs(self.gamma) * sq_norm + abs(self.coef0)
        return max(self.degree, 1) * eps * base**self.degree


@kernel_value.register(Polynomial)
def _polynomial(kernel, dot, sq_x, sq_z):
    base = kernel.gamma * dot + kernel.coef0
    if kernel.degree == 2:  # the usual degrees apart, because a loop inside would not vectorise
        return base * base
    if kernel.degree == 3:
        return base * base * base
    return base**kernel.degree


class RBF(NamedTuple):
    """k(x, z) = exp(-gamma ‖x - z‖²)."""

    gamma: float
    pairing = "dot"
    translation_invariant = True

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of the squared distance, and of the exponential itself."""
        return 4 * abs(self.gamma) * eps * sq_norm + eps


@kernel_value.register(RBF)
def _rbf(kernel, dot, sq_x, sq_z):
    return exp(-kernel.gamma * abs(sq_x + sq_z - dot - dot))


class Exponential(NamedTuple):
    """k(x, z) = exp(-gamma ‖x - z‖)."""

    gamma: float
    pairing = "dot"
    translation_invariant = True

    def rounding(self, eps, sq_norm):
        """Return the error of a value, largest for equal rows: the root of that of the squared distance."""
        return abs(self.gamma) * 2 * (eps * sq_norm) ** 0.5 + eps


@kernel_value.register(Exponential)
def _exponential(kernel, dot, sq_x, sq_z):
    return exp(-kernel.gamma * np.sqrt(abs(sq_x + sq_z - dot - dot)))


class Sigmoid(NamedTuple):
    """k(x, z) = tanh(gamma x·z + coef0), which is not positive semi-definite."""

    gamma: float
    coef0: float
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of the argument, for tanh' <= 1."""
        return abs(self.gamma) * eps * sq_norm + eps


@kernel_value.register(Sigmoid)
def _sigmoid(kernel, dot, sq_x, sq_z):
    argument = kernel.gamma * dot + kernel.coef0
    up, down = exp(argument), exp(-argument)  # no literal, which would widen float32 to float64
    return (up - down) / (up + down)


class Laplacian(NamedTuple):
    """k(x, z) = exp(-gamma ‖x - z‖₁)."""

    gamma: float
    pairing = "manhattan"
    translation_invariant = True

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of rows rounded feature by feature, and of a sum that does not cancel."""
        return eps * (2 * abs(self.gamma) * sq_norm**0.5 + 2)


@kernel_value.register(Laplacian)
def _laplacian(kernel, distance, sq_x, sq_z):
    return exp(-kernel.gamma * distance)


KERNELS: dict[str, type] = {
    "linear": Linear,
    "poly": Polynomial,
    "rbf": RBF,
    "sigmoid": Sigmoid,
    "laplacian": Laplacian,
    "exponential": Exponential,
}


def in_precision(kernel: Any, dtype: np.dtype) -> Any:
    """Return `kernel` with its real parameters as scalars of `dtype`, so that the map computes in it."""
    real = np.dtype(dtype).type
    return type(kernel)(*(value if isinstance(value, int) else real(value) for value in kernel))


@jit
def map_tile(kernel, tile, sq_x, sq_z, out, slots, start):
    """Write k of the pairings `tile` (q, b) to columns `start`... of the rows `slots` of `out`."""
    q, b = tile.shape
    for s in range(q):
        source = tile[s]
        target = out[slots[s], start : start + b]
        for i in range(b):
            target[i] = kernel_value(kernel, source[i], sq_x[s], sq_z[i])


@jit
def map_diagonal(kernel, pairing, sq_norms, out):
    """Write k(x, x) for rows with the given pairings with themselves."""
    for i in range(out.size):
        out[i] = kernel_value(kernel, pairing[i], sq_norms[i], sq_norms[i])
