"""Kernels: each is a NamedTuple of its parameters, a scalar map, and a line of the table `KERNELS`.

A kernel is a scalar function of the dot product of two rows and their squared norms, or of their L1 distance. The same
map serves training and prediction, dense and sparse rows, memory and disk.
"""

import math
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import ClassVar, NamedTuple, Protocol, TypeGuard, TypeVar

import numpy as np

from fastsvm._compiled.compiler import generic
from fastsvm._compiled.scalars import exp

__all__ = [
    "KERNELS",
    "RBF",
    "Exponential",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Sigmoid",
    "check_kernel",
    "is_kernel",
    "kernel_value",
]

Kind = TypeVar("Kind", bound=tuple)
_ATTRIBUTES: dict[str, tuple[Callable[[object], bool], str]] = {
    "pairing": (lambda value: value in ("dot", "manhattan"), "one of 'dot', 'manhattan'"),
    "translation_invariant": (lambda value: isinstance(value, bool | np.bool_), "a bool"),
    "rounding": (callable, "a method, see fastsvm.kernels.Kernel"),
}


class Kernel(Protocol):
    """Interface of kernels, of those of fastsvm and of your own.

    A kernel is a NamedTuple of numbers with the attributes below and a scalar map, which is compiled. Put the class
    and its map into a module of your own, so that other processes (`n_jobs`, pickles) can import them.

    Parameters
    ----------
    *args, **kwargs
        Parameters of the kernel: the fields of the NamedTuple.

    Attributes
    ----------
    pairing : {"dot", "manhattan"}
        Whether the map takes dot products or L1 distances of rows.
    translation_invariant : bool
        Whether k depends on x - z only, so that rows may be centred to keep dot products accurate.

    Examples
    --------
    k(x, z) = width / (width + ‖x - z‖²). The map has no literals, which would widen float32 to float64.

    >>> from typing import NamedTuple
    >>> import fastsvm
    >>> class Cauchy(NamedTuple):
    ...     width: float = 1.0
    ...     pairing = "dot"
    ...     translation_invariant = True
    ...     def rounding(self, eps: float, sq_norm: float) -> float:
    ...         return 4 * eps * sq_norm / self.width + eps
    >>> @fastsvm.kernels.kernel_value.register(Cauchy)
    ... def cauchy(kernel, dot, sq_x, sq_z):
    ...     return kernel.width / (kernel.width + abs(sq_x + sq_z - dot - dot))
    >>> model = fastsvm.SVC(kernel=Cauchy(width=2.0), C=10).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    >>> model.predict([[0.9]])
    array([1])
    """

    pairing: ClassVar[str]
    translation_invariant: ClassVar[bool]
    _fields: ClassVar[tuple[str, ...]]

    def __iter__(self) -> Iterator[float]: ...

    def _asdict(self) -> dict[str, float]: ...

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return a bound on the rounding error of a kernel value.

        Parameters
        ----------
        eps : float
            Rounding error of dot products, relative to `sq_norm`.
        sq_norm : float
            The largest squared norm of a row, after centring if the kernel is translation invariant.

        Returns
        -------
        float
            The bound.
        """
        ...


@generic
def kernel_value(kernel: Kernel, pairing: float, sq_x: float, sq_z: float) -> float:
    """Return k(x, z); `kernel_value.register(cls)` decorates the scalar map of a class.

    Parameters
    ----------
    kernel : Kernel
        An object whose class has a map.
    pairing : float
        Dot product or L1 distance of x and z, as the kernel's `pairing` says.
    sq_x : float
        Squared norm of x; 0 if the kernel takes L1 distances.
    sq_z : float
        Squared norm of z; 0 if the kernel takes L1 distances.

    Returns
    -------
    float
        The kernel value.

    Examples
    --------
    >>> from fastsvm.kernels import Linear, kernel_value
    >>> kernel_value(Linear(), 2.0, 1.0, 4.0)
    2.0
    """
    raise NotImplementedError


def is_kernel(value: object) -> TypeGuard[Kernel]:
    """Return whether a value is an object whose class has a scalar map.

    Parameters
    ----------
    value : object
        Any object.

    Returns
    -------
    bool
        True for objects of fastsvm's classes and of classes registered with `kernel_value`.

    Examples
    --------
    >>> from fastsvm.kernels import RBF, is_kernel
    >>> is_kernel(RBF(0.5)), is_kernel("rbf")
    (True, False)
    """
    return type(value) in kernel_value.bodies


def in_python(kernel: Kernel) -> Kernel:
    """Return a kernel object with Python's own numbers, for whose types maps are compiled."""
    kinds = getattr(type(kernel), "__annotations__", {})
    whole = (isinstance(value, Integral) and kinds.get(name) is not float for name, value in kernel._asdict().items())
    return type(kernel)(*(int(value) if is_int else float(value) for is_int, value in zip(whole, kernel, strict=True)))


def in_precision(kernel: Kernel, dtype: np.dtype) -> Kernel:
    """Return `kernel` with real parameters of type `dtype`, so that the map computes in that type."""
    real = np.dtype(dtype).type
    return type(kernel)(*(value if isinstance(value, int) else real(value) for value in kernel))


def check_kernel(kernel: object) -> None:
    """Check that machines can use a kernel: it has a scalar map and the attributes that `Kernel` describes.

    Parameters
    ----------
    kernel : object
        An object of fastsvm's classes or of your own.

    Raises
    ------
    ValueError
        If something is missing or of another kind; the message names it.

    Examples
    --------
    >>> from fastsvm.kernels import RBF, check_kernel
    >>> check_kernel(RBF(0.5))
    """
    name = type(kernel).__name__
    if not is_kernel(kernel):
        raise ValueError(f"{name} has no map: register one with @kernel_value.register({name}).")
    for attribute, (is_usable, words) in _ATTRIBUTES.items():
        if not hasattr(kernel, attribute):
            raise ValueError(f"{name} has no {attribute}: see fastsvm.kernels.Kernel.")
        value = getattr(kernel, attribute)
        if not is_usable(value):
            raise ValueError(f"The {attribute!r} of the kernel {kernel!r} must be {words}. Got {value!r} instead.")


def _kernel(pairing: str, *, translation_invariant: bool) -> Callable[[type[Kind]], type[Kind]]:
    """Complete a class to a `Kernel`, unequal to others: as tuples RBF(1.0) and Laplacian(1.0) would be one key."""

    def complete(kind: type[Kind]) -> type[Kind]:
        def equal(self: Kind, other: object) -> bool:
            return type(other) is kind and tuple.__eq__(self, other)

        attributes = {"pairing": pairing, "translation_invariant": translation_invariant, "__eq__": equal}
        attributes |= {
            "__ne__": lambda self, other: not equal(self, other),
            "__hash__": lambda self: hash((kind, *self)),
        }
        for name, value in attributes.items():
            setattr(kind, name, value)
        method = vars(kind)["rounding"]
        reason = (method.__doc__ or "").replace("Return", "The bound:")
        method.__doc__ = str(Kernel.rounding.__doc__).replace("The bound.", reason)
        return kind

    return complete


@_kernel("dot", translation_invariant=False)
class Linear(NamedTuple):
    """Linear kernel, k(x, z) = x·z.

    Examples
    --------
    >>> import fastsvm
    >>> from fastsvm.kernels import Linear
    >>> fastsvm.SVC(kernel=Linear()).fit([[0.0], [2.0]], [0, 1]).coef_
    array([[1.]])
    """

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the error of the dot product."""
        return eps * sq_norm


@kernel_value.register(Linear)
def _linear(kernel, dot, sq_x, sq_z):
    return dot


@_kernel("dot", translation_invariant=False)
class Polynomial(NamedTuple):
    """Polynomial kernel, k(x, z) = (gamma x·z + coef0)^degree.

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

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return `degree` times the relative error of the base."""
        base = abs(self.gamma) * sq_norm + abs(self.coef0)
        return max(self.degree, 1) * eps * base**self.degree


@kernel_value.register(Polynomial)
def _polynomial(kernel, dot, sq_x, sq_z):
    base = kernel.gamma * dot + kernel.coef0
    if kernel.degree == 2:  # usual degrees separately: a loop inside would not vectorise
        return base * base
    if kernel.degree == 3:
        return base * base * base
    return base**kernel.degree


@_kernel("dot", translation_invariant=True)
class RBF(NamedTuple):
    """Gaussian or RBF kernel, k(x, z) = exp(-gamma ‖x - z‖²).

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

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the error of the squared distance, and that of the exponential itself."""
        return 4 * abs(self.gamma) * eps * sq_norm + eps


@kernel_value.register(RBF)
def _rbf(kernel, dot, sq_x, sq_z):
    return exp(-kernel.gamma * abs(sq_x + sq_z - dot - dot))


@_kernel("dot", translation_invariant=True)
class Exponential(NamedTuple):
    """Exponential kernel, k(x, z) = exp(-gamma ‖x - z‖).

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

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the root of the error of the squared distance, which equal rows attain."""
        return abs(self.gamma) * 2 * (eps * sq_norm) ** 0.5 + eps


@kernel_value.register(Exponential)
def _exponential(kernel, dot, sq_x, sq_z):
    return exp(-kernel.gamma * np.sqrt(abs(sq_x + sq_z - dot - dot)))


@_kernel("dot", translation_invariant=False)
class Sigmoid(NamedTuple):
    """Sigmoid kernel, k(x, z) = tanh(gamma x·z + coef0), which is not positive semi-definite.

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

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the error of the argument, since tanh' <= 1."""
        return abs(self.gamma) * eps * sq_norm + eps


@kernel_value.register(Sigmoid)
def _sigmoid(kernel, dot, sq_x, sq_z):
    argument = kernel.gamma * dot + kernel.coef0
    up, down = exp(argument), exp(-argument)  # no literal, which would widen float32 to float64
    return (up - down) / (up + down)


@_kernel("manhattan", translation_invariant=True)
class Laplacian(NamedTuple):
    """Laplacian kernel, k(x, z) = exp(-gamma ‖x - z‖₁), with the L1 distance.

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

    def rounding(self, eps: float, sq_norm: float) -> float:
        """Return the error of rows rounded feature by feature, and of a sum that does not cancel."""
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


def kernel_name(kernel: object) -> str | None:
    """Return the name of a kernel in `KERNELS`; None for anything else."""
    return next((name for name, kind in KERNELS.items() if type(kernel) is kind), None)
