"""Parameters of estimators as values of JSON."""

from typing import Any

import numpy as np

from fastsvm.kernels import KERNELS

__all__ = ["kernel_object", "kernel_words", "plain"]


def kernel_words(kernel: Any) -> str | dict[str, Any]:
    """Return a kernel for JSON: its name, or name and parameters of an object."""
    if isinstance(kernel, str):
        return kernel
    name = next((name for name, kind in KERNELS.items() if type(kernel) is kind), None)
    if name is None:
        raise TypeError(
            "A model whose kernel is not of fastsvm.kernels can only be pickled, not saved: code is not data."
        )
    return {"name": name, "parameters": kernel._asdict()}


def kernel_object(words: dict[str, Any]) -> Any:
    """Return the kernel of `kernel_words`."""
    try:
        return KERNELS[words["name"]](**words["parameters"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"it has the kernel {words}, which this fastsvm does not know") from error


def plain(value: Any) -> Any:
    """Return the Python number of a NumPy scalar, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be stored in a model file.")
