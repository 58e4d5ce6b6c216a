"""Range files of LIBSVM's `svm-scale`: the smallest and the largest value of each feature, and where they go.

svm-scale maps a feature to lower + (upper - lower) (x - min) / (max - min). A feature that is constant, or not in the
file, becomes 0.
"""

from pathlib import Path

import numpy as np
from sklearn.preprocessing import MinMaxScaler

from fastsvm.estimators.kernel.kernel_parameter import Standardization
from fastsvm.exchange.text_lines import TextLines
from fastsvm.files.atomic_file import atomic_write
from fastsvm.tuning import current_tuning

_RARE = 100  # A scaler has arrays of all features, of which so many for each line are usual.


def write_range_text(path: str | Path, map_: Standardization, n_features: int) -> None:
    """Write the range file with which svm-scale does what a standardisation does."""
    shift = np.zeros(n_features) if map_.shift is None else map_.shift
    lows, highs = shift - 1 / map_.scale, shift + 1 / map_.scale
    with atomic_write(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
        file.write("x\n-1 1\n")
        for index, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True), 1):
            file.write(f"{index} {low!r} {high!r}\n")


def load_libsvm_range(
    path: str | Path, *, n_features: int | None = None, target: bool = False, first_index: int | None = None
) -> MinMaxScaler:
    """Read a range file, which `svm-scale -s` wrote, as a scaler of scikit-learn.

    It does to dense samples what `svm-scale -r` does to text, without rounding them to six digits. A pipeline of it and
    a model takes samples as they are.

    Parameters
    ----------
    path : str or Path
        The file.
    n_features : int or None, default=None
        Number of features, at least as many as the file has. None is the largest index in the file. Features that are
        not in the file, such as constant ones, become 0.
    target : bool, default=False
        Whether to return the scaler of the targets, from a file that `svm-scale -y` wrote; its `inverse_transform`
        takes predictions back to the units of the targets. It takes a column, of shape (n_samples, 1).
    first_index : {0, 1} or None, default=None
        The index of the first feature. None is 0 if an index of the file is 0, else 1. svm-scale never writes 0: pass
        it if the samples count from 0.

    Returns
    -------
    MinMaxScaler
        Fitted. It refuses sparse samples, of which zeros may become other numbers.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a range file, or is damaged, with the number of the line; or if it has no targets.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastsvm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.range")
    >>> with open(path, "w") as file:
    ...     print("x", "-1 1", "1 0 10", "3 -5 5", sep=chr(10), file=file)
    >>> fastsvm.load_libsvm_range(path).transform([[10.0, 7.0, 0.0]])
    array([[1., 0., 0.]])
    """
    lines = TextLines(path, "a range file of svm-scale")
    content = iter(lines)
    section = next(content, None)
    if section not in ([b"x"], [b"y"]):
        is_model = section is not None and section[0] in (b"svm_type", b"solver_type")
        more = "; it is the text of a model, which load_libsvm reads" if is_model else ""
        raise lines.damaged(f"it begins neither with x nor with y{more}")
    goal = None
    if section == [b"y"]:
        goal = _interval(lines, next(content, None)), _interval(lines, next(content, None))
        section = next(content, None)
    if target:
        if goal is None:
            raise ValueError(f"{path} has no range of targets; svm-scale -y writes one.")
        return _scaler(goal[0], np.zeros(1, np.int64), np.array([goal[1]]), 1)
    if section != [b"x"]:
        raise lines.damaged("it has no ranges of features, which the line x announces")
    bounds = _interval(lines, next(content, None))
    indices: list[int] = []
    ranges: list[np.ndarray] = []
    for words in content:
        if len(words) != 3:
            raise lines.error(f"there should be an index, a minimum and a maximum, found {len(words)} words")
        indices.append(int(lines.whole(words[:1], least=0)[0]))
        ranges.append(lines.numbers(words[1:]))
        if len(indices) > 1 and indices[-1] <= indices[-2]:
            raise lines.error("the indices of features do not increase")
    has_zero = bool(indices) and indices[0] == 0
    first = (0 if has_zero else 1) if first_index is None else first_index
    if first not in (0, 1) or (has_zero and first == 1):
        raise ValueError(f"first_index={first_index}, but {path} has the index {indices[0] if indices else 1}.")
    largest = indices[-1] + 1 - first if indices else 0
    if n_features is not None and n_features < largest:
        raise ValueError(f"n_features={n_features}, but {path} has feature {largest}; leave it out or raise it.")
    if max(largest, n_features or 0) == 0:
        raise lines.damaged("it has no features")
    if n_features is None and largest > max(current_tuning().storage.piece_bytes, _RARE * len(indices)):
        raise ValueError(
            f"{path} has {len(indices)} features, the last is {largest}. Pass n_features={largest} if so many are "
            "there."
        )
    columns = np.array(indices, np.int64) - first
    return _scaler(bounds, columns, np.array(ranges).reshape(-1, 2), n_features or largest)


def _interval(lines: TextLines, words: list[bytes] | None) -> tuple[float, float]:
    if words is None or len(words) != 2:
        raise lines.error("there should be a lower and an upper limit")
    lower, upper = lines.numbers(words).tolist()
    if not lower < upper:
        raise lines.error(f"the lower limit {lower} is not below the upper one, {upper}")
    return lower, upper


def _scaler(bounds: tuple[float, float], columns: np.ndarray, ranges: np.ndarray, n_features: int) -> MinMaxScaler:
    """Return the fitted scaler of ranges of some columns; the others, and constant ones, become 0."""
    low, high, scale = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
    offset = np.zeros(n_features)
    low[columns], high[columns] = ranges.T
    varies = high > low
    scale[varies] = (bounds[1] - bounds[0]) / (high[varies] - low[varies])
    offset[varies] = bounds[0] - low[varies] * scale[varies]
    scaler = MinMaxScaler(feature_range=bounds)
    scaler.data_min_, scaler.data_max_, scaler.data_range_ = low, high, high - low
    scaler.scale_, scaler.min_ = scale, offset
    scaler.n_features_in_ = n_features
    return scaler
