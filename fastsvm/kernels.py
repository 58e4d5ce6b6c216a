"""Kernels: each a NamedTuple of its parameters, one scalar map, and one line of the table `KERNELS`.

A kernel is a scalar function of a pairing of two rows: of their dot product and squared norms, or of their
Manhattan distance. The same map serves training and prediction, dense and sparse rows, memory and disk.
To add a kernel, write its class, register its map, and add it to the table.
"""

import math
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.generic import generic
from fastsvm._compiled.scalars import exp, maximum, minimum

__all__ = [
    "KERNELS",
    "RBF",
    "Exponential",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Sigmoid",
    "is_kernel",
    "kernel_value",
]


class Kernel(Protocol):
    """What the rest of the package asks of a kernel, and all that it asks of yours.

    A NamedTuple of numbers with these three attributes and a scalar map, which is compiled. Its class and its map
    stand in a module of your own, so that other processes (`n_jobs`, pickles) find them.

    Examples
    --------
    k(x, z) = width / (width + ‖x - z‖²). The map has no literals, which would widen float32 to float64.

    >>> from typing import NamedTuple
    >>> import fastsvm
    >>> class Cauchy(NamedTuple):
    ...     width: float = 1.0
    ...     pairing = "dot"
    ...     translation_invariant = True
    ...     def rounding(self, eps, sq_norm):
    ...         return 4 * eps * sq_norm / self.width + eps
    >>> @fastsvm.kernels.kernel_value.register(Cauchy)
    ... def cauchy(kernel, dot, sq_x, sq_z):
    ...     return kernel.width / (kernel.width + abs(sq_x + sq_z - dot - dot))
    >>> model = fastsvm.SVC(kernel=Cauchy(width=2.0), C=10).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> model.predict([[0.9]])
    array([1])
    """

    pairing: ClassVar[str]
    """`"dot"` if the map takes dot products, `"manhattan"` if it takes L1 distances."""
    translation_invariant: ClassVar[bool]
    """Whether k is a function of the distance of x and z, so that rows may be centred to keep products accurate."""

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the error of a value when dot products of rows are rounded to `eps` times `sq_norm`."""
        ...


@generic
def kernel_value(kernel: Kernel, pairing: float, sq_x: float, sq_z: float) -> float:
    """Return k(x, z) from the pairing of x and z and, for dot products, their squared norms."""


def is_kernel(value: Any) -> bool:
    """Return whether a value is an object whose class has a scalar map."""
    return type(value) in kernel_value.bodies


def _unlike_others(kind: type) -> type:
    """Make kernels of different classes unequal: as mere tuples RBF(1.0) and Laplacian(1.0) are one key of a dict."""
    kind.__eq__ = lambda self, other: type(other) is kind and tuple.__eq__(self, other)  # type: ignore[assignment]
    kind.__ne__ = lambda self, other: not kind.__eq__(self, other)  # type: ignore[assignment]
    kind.__hash__ = lambda self: hash((kind, *self))  # type: ignore[assignment]
    return kind


@_unlike_others
class Linear(NamedTuple):
    """k(x, z) = x·z.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import Linear
    >>> fastsvm.SVC(kernel=Linear()).fit([[0.0], [2.0]], [0, 1]).coef_
    array([[1.]])
    """

    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of the dot product."""
        return eps * sq_norm


@kernel_value.register(Linear)
def _linear(kernel, dot, sq_x, sq_z):
    return dot


@_unlike_others
class Polynomial(NamedTuple):
    """k(x, z) = (gamma x·z + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
        At least 0.
    coef0 : float, default=0.0
        Added to the product.
    gamma : float, default=1.0
        Factor of the product, at least 0.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import Polynomial
    >>> model = fastsvm.SVC(kernel=Polynomial(degree=2)).fit([[-2.0], [-1.0], [1.0], [2.0]], [1, 0, 0, 1])
    >>> model.predict([[-3.0], [0.0]])
    array([1, 0])
    """

    degree: int = 3
    coef0: float = 0.0
    gamma: float = 1.0
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


@_unlike_others
class RBF(NamedTuple):
    """k(x, z) = exp(-gamma ‖x - z‖²).

    Parameters
    ----------
    gamma : float, default=1.0
        At least 0.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import RBF
    >>> model = fastsvm.SVC(kernel=RBF(gamma=0.5), C=10).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> model.predict([[0.9]])
    array([1])
    """

    gamma: float = 1.0
    pairing = "dot"
    translation_invariant = True

    @classmethod
    def from_sigma(cls, sigma: float, convention: str = "2sigma2") -> "RBF":
        """Return the kernel of a given width.

        Parameters
        ----------
        sigma : float
            The width, above 0.
        convention : {"2sigma2", "sigma2"}, default="2sigma2"
            What publications mean by it: exp(-‖x - z‖² / (2 sigma²)) or exp(-‖x - z‖² / sigma²).

        Returns
        -------
        RBF
            The kernel with that gamma.

        Raises
        ------
        ValueError
            If sigma is not a finite number above 0, or the convention is another.

        Examples
        --------
        >>> from fastsvm.kernels import RBF
        >>> RBF.from_sigma(2.0)
        RBF(gamma=0.125)
        >>> RBF.from_sigma(2.0, convention="sigma2")
        RBF(gamma=0.25)
        """
        if not (isinstance(sigma, Real) and not isinstance(sigma, bool) and sigma > 0 and math.isfinite(sigma)):
            raise ValueError(f"sigma must be a finite number above 0. Got {sigma!r} instead.")
        if convention not in ("2sigma2", "sigma2"):
            raise ValueError(
                "convention must be '2sigma2', for exp(-‖x-z‖²/(2 sigma²)), or 'sigma2', for exp(-‖x-z‖²/sigma²). "
                f"Got {convention!r} instead."
            )
        scale = float(sigma) * float(sigma) * (2 if convention == "2sigma2" else 1)
        if not 0 < scale < math.inf:
            raise ValueError(f"sigma must have a square that floats can hold. Got {sigma!r} instead.")
        return cls(1 / scale)

    def rounding(self, eps, sq_norm):
        """Return the error of a value: that of the squared distance, and of the exponential itself."""
        return 4 * abs(self.gamma) * eps * sq_norm + eps


@kernel_value.register(RBF)
def _rbf(kernel, dot, sq_x, sq_z):
    return exp(-kernel.gamma * abs(sq_x + sq_z - dot - dot))


@_unlike_others
class Exponential(NamedTuple):
    """k(x, z) = exp(-gamma ‖x - z‖).

    Parameters
    ----------
    gamma : float, default=1.0
        At least 0.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import Exponential
    >>> model = fastsvm.SVC(kernel=Exponential(gamma=0.5), C=10).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> model.predict([[0.9]])
    array([1])
    """

    gamma: float = 1.0
    pairing = "dot"
    translation_invariant = True

    def rounding(self, eps, sq_norm):
        """Return the error of a value, largest for equal rows: the root of that of the squared distance."""
        return abs(self.gamma) * 2 * (eps * sq_norm) ** 0.5 + eps


@kernel_value.register(Exponential)
def _exponential(kernel, dot, sq_x, sq_z):
    return exp(-kernel.gamma * np.sqrt(abs(sq_x + sq_z - dot - dot)))


@_unlike_others
class Sigmoid(NamedTuple):
    """k(x, z) = tanh(gamma x·z + coef0), which is not positive semi-definite.

    Parameters
    ----------
    gamma : float, default=1.0
        Factor of the product, at least 0.
    coef0 : float, default=0.0
        Added to the product.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import Sigmoid
    >>> model = fastsvm.SVC(kernel=Sigmoid(gamma=0.5)).fit([[-1.0], [1.0]], [0, 1])
    >>> model.predict([[0.9]])
    array([1])
    """

    gamma: float = 1.0
    coef0: float = 0.0
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


@_unlike_others
class Laplacian(NamedTuple):
    """k(x, z) = exp(-gamma ‖x - z‖₁), of the sum of the features' distances.

    Parameters
    ----------
    gamma : float, default=1.0
        At least 0.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import Laplacian
    >>> model = fastsvm.SVC(kernel=Laplacian(gamma=0.5), C=10).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> model.predict([[0.9]])
    array([1])
    """

    gamma: float = 1.0
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


CHUNK = 32
"""Pairings that are mapped at once: fewer would be mapped by other code, whose roots and quotients may be others."""
ROUND = 4 * CHUNK
"""Pairings that are mapped without a copy: a multiple of what a compiled loop takes at once, so that none is left."""


@jit
def map_chunks(kernel, pairings, sq_x, sq_z, out):
    """Write k of pairings whose number is a multiple of `CHUNK`."""
    for start in range(0, out.size, CHUNK):
        for i in range(start, start + CHUNK):
            out[i] = kernel_value(kernel, pairings[i], minimum(sq_x, sq_z[i]), maximum(sq_x, sq_z[i]))


@jit
def rounds_and_rest(n):
    """Return how many of n pairings are in whole rounds, and the length of the others padded to whole chunks."""
    many = n // ROUND * ROUND
    return many, -(-(n - many) // CHUNK) * CHUNK


@jit
def map_rest(kernel, pairings, sq_x, sq_z, values, out):
    """Write k of the first pairings to `out`, by way of `values`, which has room for whole chunks as they have."""
    map_chunks(kernel, pairings, sq_x, sq_z, values)
    for i in range(out.size):
        out[i] = values[i]


@jit
def map_tile(kernel, tile, sq_x, sq_z, out, slots, start):
    """Write k of the first pairings of each row of `tile` to columns `start`... of the rows `slots` of `out`.

    Of two squared norms the smaller comes first, so that k(x, z) and k(z, x) have the same bits: LLVM may add them, and
    what is subtracted, in another order than the kernel is written in.
    """
    n = sq_z.size
    many, padded = rounds_and_rest(n)
    pairings, norms, values = np.zeros(padded, tile.dtype), np.zeros(padded, sq_z.dtype), np.empty(padded, out.dtype)
    norms[: n - many] = sq_z[many:]
    for s in range(tile.shape[0]):
        source = tile[s]
        target = out[slots[s], start : start + n]
        for i in range(many):
            target[i] = kernel_value(kernel, source[i], minimum(sq_x[s], sq_z[i]), maximum(sq_x[s], sq_z[i]))
        if many < n:
            for i in range(many, n):
                pairings[i - many] = source[i]
            map_rest(kernel, pairings, sq_x[s], norms, values, target[many:])
