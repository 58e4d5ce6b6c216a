"""LIBSVM's model text: key words, then a line for each support vector.

The format is that of `svm_save_model` in LIBSVM's svm.cpp. Numbers are written with as many digits as give the same
float64 again. LIBSVM itself writes the values of support vectors with eight.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastsvm.exchange.text_lines import TextLines, shown
from fastsvm.files.atomic_file import atomic_write

__all__ = ["LibsvmText", "read_libsvm_text", "write_libsvm_text"]

_KERNELS = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}
"""Parameters of each kernel, in the order of the text."""
_OF_CLASSES = ("c_svc", "nu_svc")
_TYPES = (*_OF_CLASSES, "one_class", "epsilon_svr", "nu_svr")
_OF_PROBABILITIES = ("probA", "probB", "prob_density_marks")


class LibsvmText(NamedTuple):
    """What the text of a model says, in LIBSVM's order and signs.

    Rows of `coef`, of shape (n_classes - 1, n_support), are for other classes: for a support vector of class c, row r
    is for the r-th other class. Without classes there is one. `vectors` are in columns by the index in the text, shape
    (n_support, largest index + 1). For a precomputed kernel, column 0 has numbers of samples.
    """

    svm_type: str  # It is "c_svc", "nu_svc", "one_class", "epsilon_svr" or "nu_svr".
    kernel_type: str  # It is "linear", "polynomial", "rbf", "sigmoid" or "precomputed".
    parameters: dict[str, float]  # They are `degree`, `gamma` and `coef0`, as far as the kernel has them.
    rho: np.ndarray  # It is subtracted from the decision values of each pair, or from the only one.
    labels: np.ndarray | None  # They are in the order of the pairs.
    counts: np.ndarray | None  # They count the support vectors of each class.
    coef: np.ndarray
    vectors: sparse.csr_matrix
    probabilities: bool = False  # It says whether the text has parameters of probabilities.

    @property
    def has_classes(self) -> bool:
        """Whether the machine is a classifier."""
        return self.svm_type in _OF_CLASSES


def write_libsvm_text(path: str | Path, text: LibsvmText) -> None:
    """Write the text of a model, atomically."""
    with atomic_write(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
        for line in _header(text):
            file.write(line + "\n")
        indptr, indices, data = text.vectors.indptr, text.vectors.indices, text.vectors.data
        is_precomputed = text.kernel_type == "precomputed"
        for row, coef in enumerate(text.coef.T.tolist()):
            span = slice(indptr[row], indptr[row + 1])
            values = data[span].astype(np.int64).tolist() if is_precomputed else data[span].tolist()
            pairs = zip(indices[span].tolist(), values, strict=True)
            words = [*map(repr, coef), *(f"{index}:{value!r}" for index, value in pairs)]
            file.write(" ".join(words) + " \n")


def _header(text: LibsvmText) -> Iterator[str]:
    yield f"svm_type {text.svm_type}"
    yield f"kernel_type {text.kernel_type}"
    for name in _KERNELS[text.kernel_type]:
        yield f"{name} {text.parameters[name]!r}"
    yield f"nr_class {2 if text.labels is None else len(text.labels)}"
    yield f"total_sv {text.coef.shape[1]}"
    yield f"rho {' '.join(map(repr, text.rho.tolist()))}"
    if text.labels is not None and text.counts is not None:
        yield f"label {' '.join(map(str, text.labels))}"
        yield f"nr_sv {' '.join(map(str, text.counts))}"
    yield "SV"


def read_libsvm_text(path: str | Path) -> LibsvmText:
    """Read the text of a model. Memory is at most some thirty times that of the file, most of it for the longest line.

    If the text is damaged, ValueError names the number of the line.
    """
    lines = TextLines(path, "the text of a LIBSVM model")
    content = iter(lines)
    found = _read_header(lines, content)
    for name in ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"):
        if name not in found:
            raise lines.damaged(f"it lacks {name}")
    n_classes = _checked(lines, found)
    coef: list[np.ndarray] = []
    indices: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for words in content:
        if len(words) < n_classes - 1:
            raise lines.error(f"there should be {n_classes - 1} coefficients, found {len(words)}")
        coef.append(lines.numbers(words[: n_classes - 1]))
        each = lines.pairs(words[n_classes - 1 :])
        if found["kernel_type"] == "precomputed" and not (len(each[0]) and each[0][0] == 0):
            raise lines.error("a support vector of a precomputed kernel begins with 0: and the number of a sample")
        indices.append(each[0])
        values.append(each[1])
        if len(coef) > found["total_sv"]:
            raise lines.error(f"total_sv says {found['total_sv']} support vectors, here is one more")
    if len(coef) != found["total_sv"]:
        raise lines.error(f"total_sv says {found['total_sv']} support vectors, there are {len(coef)}", "total_sv")
    return LibsvmText(
        svm_type=found["svm_type"],
        kernel_type=found["kernel_type"],
        parameters={name: found[name] for name in _KERNELS[found["kernel_type"]]},
        rho=found["rho"],
        labels=found.get("label"),
        counts=found.get("nr_sv"),
        coef=np.ascontiguousarray(np.array(coef).reshape(len(coef), n_classes - 1).T),
        vectors=_rows(indices, values),
        probabilities=any(name in found for name in _OF_PROBABILITIES),
    )


def _read_header(lines: TextLines, content: Iterator[list[bytes]]) -> dict[str, Any]:
    """Return the values of the key words before the support vectors."""
    found: dict[str, Any] = {}
    for words in content:
        name = lines.key_word(words)
        if name == "SV":
            return found
        if name in ("svm_type", "kernel_type"):
            known = _TYPES if name == "svm_type" else tuple(_KERNELS)
            found[name] = shown(lines.one(words))
            if found[name] not in known:
                raise lines.error(f"{name} is {found[name]}, but must be one of {', '.join(known)}")
        elif name in ("degree", "nr_class", "total_sv"):
            found[name] = int(lines.whole([lines.one(words)], least=0)[0])
        elif name in ("gamma", "coef0"):
            found[name] = float(lines.numbers([lines.one(words)])[0])
        elif name in ("rho", *_OF_PROBABILITIES):
            found[name] = lines.numbers(words[1:])
        elif name in ("label", "nr_sv"):
            found[name] = lines.whole(words[1:], **({"least": 0} if name == "nr_sv" else {}))
        elif not found and name in ("x", "y"):
            raise lines.damaged("it begins like a range file of svm-scale, which load_libsvm_range reads")
        else:
            raise lines.error(f"there is no key word {name} in the text of a LIBSVM model")
    raise lines.damaged("it ends before the support vectors, which the line SV announces")


def _checked(lines: TextLines, found: dict[str, Any]) -> int:
    """Return the number of classes, 2 for machines without. The numbers of all values must fit it."""
    missing = [name for name in _KERNELS[found["kernel_type"]] if name not in found]
    n_classes, has_classes = found["nr_class"], found["svm_type"] in _OF_CLASSES
    if has_classes:
        missing += [name for name in ("label", "nr_sv") if name not in found]
    if missing:
        raise lines.damaged(f"it lacks {', '.join(missing)}")
    if n_classes < 2 or (not has_classes and n_classes != 2):
        raise lines.error(f"nr_class is {n_classes}, but must be {'2 at least' if has_classes else '2'}", "nr_class")
    lengths = {"rho": n_classes * (n_classes - 1) // 2}
    if has_classes:
        lengths |= {"label": n_classes, "nr_sv": n_classes}
    else:
        found.pop("label", None)
        found.pop("nr_sv", None)
    for name, length in lengths.items():
        if len(found[name]) != length:
            raise lines.error(f"{name} has {len(found[name])} values, {n_classes} classes ask for {length}", name)
    if has_classes and len(np.unique(found["label"])) < n_classes:
        raise lines.error("a label is there twice", "label")
    if has_classes and found["nr_sv"].sum() != found["total_sv"]:
        raise lines.error(f"nr_sv has the sum {found['nr_sv'].sum()}, total_sv is {found['total_sv']}", "nr_sv")
    return n_classes


def _rows(indices: list[np.ndarray], values: list[np.ndarray]) -> sparse.csr_matrix:
    """Return rows of pairs as a matrix, with a column for each index from 0."""
    indptr = np.cumsum([0, *map(len, indices)])
    columns = np.concatenate([*indices, np.zeros(0, np.int64)])
    data = np.concatenate([*values, np.zeros(0)])
    width = int(columns.max()) + 1 if len(columns) else 1
    return sparse.csr_matrix((data, columns.astype(np.int32), indptr), shape=(len(indices), width))
