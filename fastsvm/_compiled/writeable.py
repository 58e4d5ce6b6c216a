"""Arrays that are read-only, in the form for which functions are compiled."""

from typing import Any

import numpy as np

__all__ = ["writeable"]


def writeable(array: np.ndarray) -> np.ndarray:
    """Return a view that NumPy takes for writeable, to be read by compiled functions.

    Numba compiles every function anew for arrays that are read-only, such as those of memory maps, of data frames, and
    of joblib's processes.
    """
    if array.flags.writeable:
        return array
    interface = array.__array_interface__ | {"data": (array.__array_interface__["data"][0], False)}
    return np.asarray(_Memory(array, interface))


class _Memory:
    """Memory of an array, which it keeps alive, described to NumPy in another way."""

    def __init__(self, owner: np.ndarray, interface: dict[str, Any]) -> None:
        self.owner, self.__array_interface__ = owner, interface
