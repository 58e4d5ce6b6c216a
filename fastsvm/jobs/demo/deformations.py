"""Deformed images: small rotations, shears, shifts and elastic fields.

Such images teach a classifier what does not change a digit (Simard, Steinkraus and Platt 2003, Best practices for
convolutional neural networks applied to visual document analysis; Loosli, Canu and Bottou 2007, Training invariant
support vector machines using selective sampling).
"""

import numpy as np
from scipy import ndimage

from fastsvm.progress_bar import progress_bar

__all__ = ["deformed", "enlarged"]

_ANGLE, _SHEAR, _SCALE = 0.12, 0.1, 0.06  # They have these standard deviations, that of the angle in radians.
_SHIFT, _ELASTIC = 0.6, 0.5  # A pixel is shifted by so many pixels of the original, at most.
_SMOOTH = 6  # An elastic field is smooth over one part in so many of a side.


def enlarged(images: np.ndarray, side: int) -> np.ndarray:
    """Return images of values from 0 to 1 as rows of side² bytes."""
    return np.array([_drawn(image, _grid(side, image.shape[0])) for image in images])


def deformed(images: np.ndarray, n: int, side: int, seed: int, progress: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return n deformed images, of `side` pixels a side, as rows of bytes, and the number of the original of each.

    The originals, shape (m, width, width), have values from 0 to 1 and take turns.
    """
    rng, width = np.random.default_rng(seed), images.shape[1]
    grid = _grid(side, width)
    rows, originals = np.empty((n, side * side), np.uint8), np.arange(n) % len(images)
    for i in progress_bar(range(n), shown=progress, desc="deforming images", unit=" images"):
        angle, shear, scale = rng.normal(0, [_ANGLE, _SHEAR, _SCALE])
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        affine = (1 + scale) * turn @ np.array([[1, shear], [0, 1]])
        middle = (width - 1) / 2
        places = np.tensordot(affine, grid - middle, 1) + middle + rng.uniform(-_SHIFT, _SHIFT, 2)[:, None, None]
        rows[i] = _drawn(images[originals[i]], places + _elastic(side, rng))
    return rows, originals


def _elastic(side: int, rng: np.random.Generator) -> np.ndarray:
    """Return a smooth random field of shifts, shape (2, side, side)."""
    noise = rng.uniform(-1, 1, (2, side, side))
    field = ndimage.gaussian_filter(noise, (0, side / _SMOOTH, side / _SMOOTH))
    return field * (_ELASTIC / np.abs(field).max())


def _grid(side: int, width: int) -> np.ndarray:
    """Return the places of side² pixels in an image of width² pixels, shape (2, side, side)."""
    centres = (np.arange(side) + 0.5) * width / side - 0.5
    return np.stack(np.meshgrid(centres, centres, indexing="ij"))


def _drawn(image: np.ndarray, places: np.ndarray) -> np.ndarray:
    values = ndimage.map_coordinates(image, places, order=1, mode="constant")
    return (255 * np.clip(values, 0, 1)).astype(np.uint8).ravel()
