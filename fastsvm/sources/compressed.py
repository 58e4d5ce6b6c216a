"""Checks of the three arrays of a sparse matrix."""

import numpy as np
from scipy import sparse

from fastsvm._compiled.compiler import jit
from fastsvm._compiled.writeable import writeable

__all__ = ["check_compressed", "look_through"]


def check_compressed(matrix: sparse.spmatrix | sparse.sparray, n_major: int, n_minor: int) -> bool:
    """Check the arrays of a sparse matrix; return whether indices increase in each row (CSR) or column (CSC).

    The matrix has `n_major` compressed rows or columns of length `n_minor`. SciPy checks the arrays when it creates it.
    If they are changed later, its functions may read and write outside of them. Arrays that do not fit each other raise
    ValueError.
    """
    data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
    name = f"The {matrix.format.upper()} matrix is damaged:"
    for word, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        if array.ndim != 1 or (word != "data" and array.dtype not in (np.int32, np.int64)):
            needed = "numbers" if word == "data" else "int32 or int64"
            raise ValueError(f"{name} {word} must be {needed} in one dimension, found {array.dtype} {array.shape}.")
    if len(indptr) != n_major + 1:
        raise ValueError(f"{name} indptr has {len(indptr)} entries, {n_major + 1} are needed.")
    if len(data) != len(indices):
        raise ValueError(f"{name} data has {len(data)} entries, indices has {len(indices)}.")
    place, rising, inside = look_through(writeable(indices), writeable(indptr), n_minor)
    if place >= 0:
        found = f"indptr[{place}] is {indptr[place]}" + (f" after {indptr[place - 1]}" if place > 0 else "")
        raise ValueError(f"{name} {found}; indptr must increase from 0 to at most {len(data)}, the number of values.")
    if not inside:
        used = indices[: indptr[-1]]
        low, high = used.min(), used.max()
        if low < 0 or high >= n_minor:
            raise ValueError(f"{name} it has indices from {low} to {high}; they must be between 0 and {n_minor - 1}.")
    return bool(rising)


@jit
def look_through(indices, indptr, n_minor):
    """Return where `indptr` is wrong, or -1; whether indices increase in rows; whether they are in bounds too."""
    if indptr[0] != 0:
        return 0, False, False
    for row in range(1, indptr.size):
        if not indptr[row - 1] <= indptr[row] <= indices.size:
            return row, False, False
    rising = inside = True
    for row in range(indptr.size - 1):
        first, end = indptr[row], indptr[row + 1]
        for place in range(first + 1, end):
            rising &= indices[place - 1] < indices[place]
        if first < end:
            inside &= indices[first] >= 0 and indices[end - 1] < n_minor
    return -1, rising, rising and inside
