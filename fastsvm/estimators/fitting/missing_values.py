"""Values that are missing: masked ones of `numpy.ma`, and None, NaN and NA among labels."""

from typing import Any

import numpy as np

__all__ = ["check_labelled", "check_unmasked"]

_NAMES = ("NAType", "NaTType")  # the types of pandas, which need not be installed


def check_unmasked(name: str, values: Any) -> None:
    """Raise ValueError if values of an array are masked: the numbers below a mask mean nothing."""
    if np.ma.is_masked(values):
        place = ", ".join(map(str, np.argwhere(np.ma.getmaskarray(values))[0]))
        raise ValueError(
            f"{name} contains masked values, the first at [{place}]. Remove these samples, or replace the values by "
            f"numbers: {name}.filled(0)."
        )


def check_labelled(y: np.ndarray) -> None:
    """Raise ValueError for the first object that is None, NaN or pandas' NA among labels."""
    if y.dtype.kind != "O":
        return
    for row, label in enumerate(y):
        if label is None or (isinstance(label, float) and label != label) or type(label).__name__ in _NAMES:
            raise ValueError(
                f"Input y contains NaN or None: the label of sample {row} is {label}. Remove samples without a label."
            )
