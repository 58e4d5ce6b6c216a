"""Rows of pixels as images."""

from typing import Any

import numpy as np
from scipy import sparse

from fastsvm.sources import as_source, is_stored

__all__ = ["as_images", "names_of", "rows_at"]

_COLOUR_COUNTS = (1, 3)


def as_images(rows: np.ndarray, image_shape: tuple[int, ...], channels: str | None = None) -> np.ndarray:
    """Return rows of pixels as images, shape (n_rows, height, width) or, in colour, (n_rows, height, width, 3).

    `image_shape` is (h, w), (c, h, w) or (h, w, c), where c is 1 or 3. `channels`, "first" or "last", is their place in
    it; None infers it. A shape that is none of these, is ambiguous, or does not fit the length of a row raises
    ValueError.
    """
    shape = tuple(int(size) for size in image_shape)
    if channels not in (None, "first", "last"):
        raise ValueError(f"channels must be 'first', 'last' or None, found {channels!r}.")
    if len(shape) not in (2, 3):
        raise ValueError(f"image_shape must be (h, w), (c, h, w) or (h, w, c), found {shape}.")
    first = len(shape) == 3 and _channels_first(shape, channels)
    if np.prod(shape) != rows.shape[1]:
        raise ValueError(f"image_shape {shape} has {np.prod(shape)} values, rows have {rows.shape[1]}.")
    images = rows.reshape(-1, *shape)
    images = np.moveaxis(images, 1, -1) if first else images
    return images[..., 0] if len(shape) == 3 and images.shape[-1] == 1 else images


def _channels_first(shape: tuple[int, ...], channels: str | None) -> bool:
    """Return whether the first of three sizes counts the channels, rather than the last."""
    first, last = (shape[place] in _COLOUR_COUNTS for place in (0, -1))
    if channels is None:
        if first and last:
            raise ValueError(f"image_shape {shape} may be (c, h, w) or (h, w, c): say channels='first' or 'last'.")
        channels = "first" if first else "last"
    if not (first if channels == "first" else last):
        raise ValueError(f"image_shape {shape} must have 1 or 3 channels, {channels} as channels says or by default.")
    return channels == "first"


def rows_at(X: Any, numbers: np.ndarray) -> np.ndarray:
    """Return some rows of X as a dense array (n_rows, n_values); no other rows are read from disk."""
    if is_stored(X):
        source = as_source(X)
        blocks = [source.read(number, number + 1) for number in np.asarray(numbers).tolist()]
        return np.concatenate([_dense(block.user_array()) for block in blocks])
    rows = X.iloc[numbers] if hasattr(X, "iloc") else (X if hasattr(X, "shape") else np.asarray(X))[numbers]
    rows = _dense(rows)
    return rows.reshape(len(rows), -1)


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def names_of(labels: np.ndarray, class_names: Any) -> list[str]:
    """Return the name of each label: the label itself, or the name that the user gave in the same order.

    It raises ValueError if the numbers of names and labels differ.
    """
    if class_names is None:
        return [str(label) for label in labels]
    if len(class_names) != len(labels):
        raise ValueError(f"class_names must name each of the {len(labels)} classes, found {len(class_names)} names.")
    return [str(name) for name in class_names]
