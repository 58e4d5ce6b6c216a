"""LIBLINEAR's model text: key words, then a line of weights for each feature.

The format is that of `save_model` in LIBLINEAR's linear.cpp. Numbers are written with as many digits as give the same
float64 again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastsvm.exchange.text_lines import TextLines, shown
from fastsvm.files.atomic_file import atomic_write

__all__ = ["ONE_CLASS", "LiblinearText", "read_liblinear_text", "write_liblinear_text"]

_OF_CLASSES = (
    "L2R_LR",
    "L2R_L2LOSS_SVC_DUAL",
    "L2R_L2LOSS_SVC",
    "L2R_L1LOSS_SVC_DUAL",
    "MCSVM_CS",
    "L1R_L2LOSS_SVC",
    "L1R_LR",
    "L2R_LR_DUAL",
)
_OF_NUMBERS = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")
ONE_CLASS = "ONECLASS_SVM"
_TYPES = (*_OF_CLASSES, *_OF_NUMBERS, ONE_CLASS)


class LiblinearText(NamedTuple):
    """What the text of a model says, in LIBLINEAR's order and signs."""

    solver_type: str  # It is a word such as "L2R_L2LOSS_SVC_DUAL".
    labels: np.ndarray | None  # Of two classes a positive score stands for the first.
    weights: np.ndarray  # They have shape (n_features, n_scores).
    bias: float  # It is the value of a constant feature; below 0 if there is none.
    bias_weights: np.ndarray  # They are the weights of the constant feature, shape (n_scores,).
    rho: float = 0.0  # It is subtracted from the score of "ONECLASS_SVM".


def write_liblinear_text(path: str | Path, text: LiblinearText) -> None:
    """Write the text of a model, atomically."""
    with atomic_write(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
        file.write(f"solver_type {text.solver_type}\n")
        file.write(f"nr_class {2 if text.labels is None else len(text.labels)}\n")
        if text.labels is not None:
            file.write(f"label {' '.join(map(str, text.labels))}\n")
        file.write(f"nr_feature {len(text.weights)}\nbias {text.bias!r}\n")
        file.write(f"rho {text.rho!r}\nw\n" if text.solver_type == ONE_CLASS else "w\n")
        rows = text.weights.tolist() + ([text.bias_weights.tolist()] if text.bias >= 0 else [])
        for row in rows:
            file.write(" ".join(map(repr, row)) + " \n")


def read_liblinear_text(path: str | Path) -> LiblinearText:
    """Read the text of a model. Memory is at most some thirty times that of the file.

    If the text is damaged, ValueError names the number of the line.
    """
    lines = TextLines(path, "the text of a LIBLINEAR model")
    content = iter(lines)
    found = _read_header(lines, content)
    n_classes = _checked(lines, found)
    n_scores = n_classes if n_classes > 2 or found["solver_type"] == "MCSVM_CS" else 1
    n_rows = found["nr_feature"] + (found["bias"] >= 0)
    rows: list[np.ndarray] = []
    for words in content:
        if len(words) != n_scores:
            raise lines.error(f"there should be {n_scores} weights, found {len(words)}")
        rows.append(lines.numbers(words))
        if len(rows) > n_rows:
            raise lines.error(f"nr_feature and bias ask for {n_rows} lines of weights, here is one more")
    if len(rows) != n_rows:
        raise lines.error(f"nr_feature and bias ask for {n_rows} lines of weights, there are {len(rows)}", "nr_feature")
    weights = np.array(rows).reshape(n_rows, n_scores)
    n_features = found["nr_feature"]
    bias_weights = weights[n_features] if n_rows > n_features else np.zeros(n_scores)
    is_of_classes = found["solver_type"] in _OF_CLASSES
    rho = float(found["rho"]) if found["solver_type"] == ONE_CLASS else 0.0
    labels = found["label"] if is_of_classes else None
    return LiblinearText(found["solver_type"], labels, weights[:n_features], found["bias"], bias_weights, rho)


def _read_header(lines: TextLines, content: Iterator[list[bytes]]) -> dict[str, Any]:
    """Return the values of the key words before the weights."""
    found: dict[str, Any] = {}
    for words in content:
        name = lines.key_word(words)
        if name == "w":
            return found
        if name == "solver_type":
            found[name] = shown(lines.one(words))
            if found[name] not in _TYPES:
                raise lines.error(f"solver_type is {found[name]}, but must be one of {', '.join(_TYPES)}")
        elif name in ("nr_class", "nr_feature"):
            found[name] = int(lines.whole([lines.one(words)], least=0)[0])
        elif name in ("bias", "rho"):
            found[name] = float(lines.numbers([lines.one(words)])[0])
        elif name == "label":
            found[name] = lines.whole(words[1:])
        else:
            raise lines.error(f"there is no key word {name} in the text of a LIBLINEAR model")
    raise lines.damaged("it ends before the weights, which the line w announces")


def _checked(lines: TextLines, found: dict[str, Any]) -> int:
    """Return the number of classes, 2 for machines without. The labels must be as many, and different."""
    needed = ["solver_type", "nr_class", "nr_feature", "bias"]
    kind, n_classes = found.get("solver_type"), found.get("nr_class", 0)
    if kind in _OF_CLASSES:
        needed.append("label")
    if kind == ONE_CLASS:
        needed.append("rho")
    missing = [name for name in needed if name not in found]
    if missing:
        raise lines.damaged(f"it lacks {', '.join(missing)}")
    if kind not in _OF_CLASSES:
        return 2
    if n_classes < 2:
        raise lines.error(f"nr_class is {n_classes}, but must be 2 at least", "nr_class")
    if len(found["label"]) != n_classes or len(np.unique(found["label"])) < n_classes:
        problem = f"{n_classes} classes ask for as many different labels, found {found['label'].tolist()}"
        raise lines.error(problem, "label")
    return n_classes
