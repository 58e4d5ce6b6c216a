"""Conversion of LIBSVM's layout, with classes in order of appearance, to scikit-learn's, with sorted classes."""

from itertools import combinations

import numpy as np

__all__ = ["sorted_layout"]


def sorted_layout(
    codes: np.ndarray, support: np.ndarray, coef: np.ndarray, rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `dual_coef_` and `intercept_` in the layout of scikit-learn.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Class of every sample, from 0.
    support : ndarray of int, shape (n_SV,)
        Row numbers of the support vectors.
    coef : ndarray of shape (n_classes - 1, n_SV)
        LIBSVM's coefficients: those of class i against class j are in row j - 1 if i is before j, else in row j.
    rho : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        LIBSVM's rho, the negative intercepts.
    """
    classes, first = np.unique(codes, return_index=True)
    place = np.argsort(np.argsort(first))
    number = {pair: k for k, pair in enumerate(combinations(range(len(classes)), 2))}
    dual_coef, intercept = np.zeros(coef.shape), np.zeros(len(rho))
    of_class = [codes[support] == one for one in classes]
    for (a, b), k in number.items():
        p, q = place[a], place[b]
        sign = 1 if p < q else -1
        dual_coef[b - 1, of_class[a]] = sign * coef[q - (p < q), of_class[a]]
        dual_coef[a, of_class[b]] = sign * coef[p - (q < p), of_class[b]]
        intercept[k] = -sign * rho[number[min(p, q), max(p, q)]]
    # With two classes scikit-learn's signs are those of the second class.
    return (-dual_coef, -intercept) if len(classes) == 2 else (dual_coef, intercept)
