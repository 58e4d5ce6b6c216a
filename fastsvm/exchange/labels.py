"""Labels of classes in texts that have whole numbers only."""

import numpy as np

__all__ = ["whole_labels"]


def whole_labels(classes: np.ndarray, program: str) -> np.ndarray:
    """Return labels as int64; ValueError says that some are not whole numbers of 32 bits."""
    numbers = classes.astype(np.int64) if classes.dtype.kind in "biu" else classes
    if classes.dtype.kind == "f" and (np.mod(classes, 1) == 0).all():
        numbers = classes
    if numbers.dtype.kind not in "if" or np.abs(numbers).max() > np.iinfo(np.int32).max:
        raise ValueError(
            f"{program}'s text has whole numbers of 32 bits as labels, this model has {classes[:3].tolist()}"
            f"{', ...' if len(classes) > 3 else ''}. Fit it to numbers, such as those of sklearn.preprocessing."
            "LabelEncoder."
        )
    return numbers.astype(np.int64)
