"""A Cholesky factor from which rows can be deleted, in compiled code, for systems of some hundred rows.

The matrix is UᵀU with an upper triangle U, whose rows are contiguous for all three operations.
"""

import numpy as np

from fastsvm._compiled.compiler import jit

__all__ = ["delete_row", "factorise", "solve_factorised"]


@jit
def factorise(matrix, ridge):
    """Replace the upper triangle of a matrix, plus `ridge` on its diagonal, by U; return whether it is definite."""
    m = matrix.shape[0]
    for k in range(m):
        row = matrix[k, k:]
        row[0] += ridge
        j = 0
        while j + 4 <= k:  # so that the row is loaded and stored a quarter as often
            a, b, c, d = matrix[j, k:], matrix[j + 1, k:], matrix[j + 2, k:], matrix[j + 3, k:]
            u, v, w, x = a[0], b[0], c[0], d[0]
            for t in range(row.size):
                row[t] -= u * a[t] + v * b[t] + (w * c[t] + x * d[t])
            j += 4
        while j < k:
            a = matrix[j, k:]
            u = a[0]
            for t in range(row.size):
                row[t] -= u * a[t]
            j += 1
        if not row[0] > 0:
            return False
        pivot = np.sqrt(row[0])
        for t in range(row.size):
            row[t] /= pivot
    return True


@jit
def solve_factorised(factor, first, second):
    """Replace two vectors by the solutions of the system of the first rows, as many as they have elements."""
    m = first.size
    for k in range(m):
        row = factor[k]
        one, other = first[k] / row[k], second[k] / row[k]
        first[k], second[k] = one, other
        for t in range(k + 1, m):
            first[t] -= one * row[t]
            second[t] -= other * row[t]
    for k in range(m - 1, -1, -1):
        row, one, other = factor[k], first[k], second[k]
        for t in range(k + 1, m):
            one -= row[t] * first[t]
            other -= row[t] * second[t]
        first[k], second[k] = one / row[k], other / row[k]


@jit
def delete_row(factor, m, place):
    """Turn the factor of m rows into that without one of them, in its first m - 1 rows.

    The deleted row of U is added to the triangle below it by rotations (Golub and Van Loan, section 6.5.4).
    """
    extra = np.empty(m - place)
    for t in range(place + 1, m):
        extra[t - place - 1] = factor[place, t]
    for k in range(place):
        row = factor[k]
        for t in range(place, m - 1):
            row[t] = row[t + 1]
    for k in range(place, m - 1):
        source, target, rest = factor[k + 1, k + 1 : m], factor[k, k : m - 1], extra[k - place : m - place - 1]
        length = np.sqrt(source[0] ** 2 + rest[0] ** 2)
        cosine, sine = source[0] / length, rest[0] / length
        for t in range(rest.size):
            value, other = source[t], rest[t]
            target[t] = cosine * value + sine * other
            rest[t] = cosine * other - sine * value
