"""Kernel machines and LIBSVM's text.

LIBSVM subtracts `rho`, its classes have any order, and of two classes a positive decision stands for the first one.
The estimators add an intercept, their classes are sorted, and of two a positive decision stands for the second.
"""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.estimators.kernel.kernel_parameter import Standardization, resolve_kernel
from fastsvm.estimators.registry import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from fastsvm.exchange.imported import KernelParts, kernel_model, standardized
from fastsvm.exchange.text_lines import Header, TextLines, ValueReaders, whole_labels
from fastsvm.files.atomic_file import atomic_write
from fastsvm.kernels import kernel_name
from fastsvm.multiclass import class_pairs
from fastsvm.sources import MemorySource, Origin, to_dense

_KERNELS = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}
"""Parameters of each kernel, in the order of the text."""
_NAMES = {"polynomial": "poly"}  # in parameters, where they differ from those of the text
_OF_PROBABILITIES = ("probA", "probB", "prob_density_marks")


MACHINES: dict[str, type[BaseEstimator]] = {
    "c_svc": SVC,
    "nu_svc": NuSVC,
    "one_class": OneClassSVM,
    "epsilon_svr": SVR,
    "nu_svr": NuSVR,
}
"""Kernel machines by their names in the text."""


# --- from text to a model --------------------------------------------------------------------------------


def read_libsvm_text(path: str | Path, n_features: int | None, first_index: int | None) -> BaseEstimator:
    """Return the estimator of a text, by the arguments of `load_libsvm`, in at most some thirty times its memory."""
    lines = TextLines(path, "the text of a LIBSVM model")
    readers: ValueReaders = {
        "svm_type": lambda words: lines.choice(words, tuple(MACHINES)),
        "kernel_type": lambda words: lines.choice(words, tuple(_KERNELS)),
        **dict.fromkeys(("degree", "nr_class", "total_sv"), lines.count),
        **dict.fromkeys(("gamma", "coef0"), lines.number_of),
        **dict.fromkeys(("rho", *_OF_PROBABILITIES), lambda words: lines.numbers(words[1:])),
        "label": lambda words: lines.whole(words[1:]),
        "nr_sv": lambda words: lines.whole(words[1:], least=0),
    }
    header = lines.header(readers, "SV", "the support vectors")
    lines.require(header, ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"))
    n_classes = _checked(lines, header)
    kind, kernel_type = MACHINES[header["svm_type"]], header["kernel_type"]
    coef, vectors = _support_vectors(lines, n_classes - 1, header["total_sv"], kernel_type)
    has_zero = bool((vectors.indices == 0).any())
    first = (0 if has_zero else 1) if first_index is None else first_index
    if has_zero and first == 1 and kernel_type != "precomputed":
        raise ValueError("first_index=1, but a support vector has the index 0")
    counts, labels, rho, sign = np.array([coef.shape[1]]), header.get("label"), header["rho"], 1
    if labels is not None:
        sign = -1 if len(labels) == 2 else 1
        order = np.argsort(labels)
        (coef, counts, rows), rho = _in_order(order, coef, header["nr_sv"], rho)
        labels, vectors = labels[order], vectors[rows]
    parameters = {name: header[name] for name in _KERNELS[kernel_type]}
    parts = KernelParts(
        dual_coef=sign * coef,
        intercept=-sign * rho,
        n_support=counts,
        classes=labels,
        gamma=parameters.get("gamma", 0.0),
        **_samples(vectors, kernel_type, n_features, first),
    )
    parameters["kernel"] = _NAMES.get(kernel_type, kernel_type)
    model = kernel_model(kind, parameters, parts, **({"offset_": rho} if kind is OneClassSVM else {}))
    if kernel_type != "precomputed":
        model._origin = Origin(first, sure=has_zero or first_index is not None)
    if any(name in header for name in _OF_PROBABILITIES):
        warnings.warn(
            f"{path} has parameters of probabilities, which are left out: {type(model).__name__} has decision values "
            "and no probabilities. fastsvm.CalibratedClassifier has them.",
            UserWarning,
            stacklevel=3,
        )
    return model


def _checked(lines: TextLines, header: Header) -> int:
    """Return the number of classes, 2 for machines without. The numbers of all values must fit it."""
    n_classes, has_classes = header["nr_class"], issubclass(MACHINES[header["svm_type"]], ClassifierMixin)
    lines.require(header, [*_KERNELS[header["kernel_type"]], *(("label", "nr_sv") if has_classes else ())])
    if n_classes < 2 or (not has_classes and n_classes != 2):
        raise lines.error(f"nr_class is {n_classes}, but must be {'2 at least' if has_classes else '2'}", "nr_class")
    lengths = {"rho": n_classes * (n_classes - 1) // 2}
    if has_classes:
        lengths |= {"label": n_classes, "nr_sv": n_classes}
    else:
        header.pop("label", None)
        header.pop("nr_sv", None)
    for name, length in lengths.items():
        if len(header[name]) != length:
            raise lines.error(f"{name} has {len(header[name])} values, {n_classes} classes ask for {length}", name)
    if has_classes and len(np.unique(header["label"])) < n_classes:
        raise lines.error("a label is there twice", "label")
    if has_classes and header["nr_sv"].sum() != header["total_sv"]:
        raise lines.error(f"nr_sv has the sum {header['nr_sv'].sum()}, total_sv is {header['total_sv']}", "nr_sv")
    return n_classes


def _support_vectors(
    lines: TextLines, n_coef: int, n_vectors: int, kernel_type: str
) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Return coefficients, shape (n_coef, n_vectors), and support vectors, with a column for each index from 0."""
    coef: list[np.ndarray] = []
    indices: list[np.ndarray] = [np.zeros(0, np.int64)]
    values: list[np.ndarray] = [np.zeros(0)]
    for words in lines.table(n_vectors, n_coef, "total_sv says {} support vectors", rest=True):
        coef.append(lines.numbers(words[:n_coef]))
        each = lines.pairs(words[n_coef:])
        if kernel_type == "precomputed" and not (len(each[0]) and each[0][0] == 0):
            raise lines.error("a support vector of a precomputed kernel begins with 0: and the number of a sample")
        indices.append(each[0])
        values.append(each[1])
    columns, indptr = np.concatenate(indices), np.cumsum(list(map(len, indices)))
    width = int(columns.max(initial=0)) + 1
    vectors = sparse.csr_matrix((np.concatenate(values), columns.astype(np.int32), indptr), shape=(n_vectors, width))
    return np.ascontiguousarray(np.array(coef).reshape(n_vectors, n_coef).T), vectors


def _samples(vectors: sparse.csr_matrix, kernel_type: str, n_features: int | None, first: int) -> Attributes:
    """Return support vectors, and what is known of the samples that they were among."""
    if kernel_type == "precomputed":
        numbers = np.asarray(vectors[:, [0]].toarray()).ravel()
        if (numbers < 1).any() or (numbers % 1 != 0).any() or len(set(numbers.tolist())) < len(numbers):
            raise ValueError("the numbers of support vectors of a precomputed kernel must be whole, from 1, different")
        largest = int(numbers.max(initial=1))
        n = _at_least(largest, n_features, f"sample {largest}")
        return {"support_vectors": np.empty((0, 0)), "support": numbers.astype(np.int64) - 1, "shape_fit": (n, n)}
    vectors = vectors[:, first:]
    vectors.sort_indices()
    n, largest = vectors.shape
    d = _at_least(max(largest, 1), n_features, f"feature {largest}")
    vectors = sparse.csr_matrix((vectors.data, vectors.indices, vectors.indptr), shape=(n, d))
    stored = vectors.toarray() if 2 * vectors.nnz >= n * d else vectors  # half of the values are not zero
    return {"support_vectors": stored, "support": np.arange(n), "shape_fit": (max(n, 1), d)}


def _at_least(least: int, wanted: int | None, what: str) -> int:
    if wanted is not None and wanted < least:
        raise ValueError(f"n_features={wanted}, but the text mentions {what}; leave it out or raise it")
    return least if wanted is None else int(wanted)


class Layout(NamedTuple):
    """Support vectors as LIBSVM arranges them: `coef` has shape (n_classes - 1, n_vectors)."""

    coef: np.ndarray
    counts: np.ndarray  # They count the vectors of each class.
    rows: np.ndarray  # They tell which support vector of the model, or of the text, each is.


def _in_order(
    order: np.ndarray, old_coef: np.ndarray, old_counts: np.ndarray, old_rho: np.ndarray
) -> tuple[Layout, np.ndarray]:
    """Return the support vectors and `rho` with other places of classes; a pair that swaps them changes its sign."""
    counts, start = old_counts[order], np.cumsum(old_counts) - old_counts
    spans = [np.arange(start[c], start[c] + old_counts[c]) for c in order]
    pairs = class_pairs(len(order))
    number = {pair: k for k, pair in enumerate(pairs)}
    coef, rho = np.zeros_like(old_coef), np.zeros_like(old_rho)
    to = np.cumsum(counts) - counts
    for k, (a, b) in enumerate(pairs):
        p, q = int(order[a]), int(order[b])
        sign = 1.0 if p < q else -1.0
        rho[k] = sign * old_rho[number[min(p, q), max(p, q)]]
        for new, other, old, old_other in ((a, b, p, q), (b, a, q, p)):
            row, old_row = other - (other > new), old_other - (old_other > old)
            coef[row, to[new] : to[new] + old_counts[old]] = sign * old_coef[old_row, spans[new]]
    return Layout(coef, counts, np.concatenate(spans)), rho


# --- from a model to text --------------------------------------------------------------------------------


def write_libsvm_text(path: str | Path, model: BaseEstimator, first_index: int) -> None:
    """Write the text of a fitted kernel machine, whose first feature has the index `first_index`, 0 or 1."""
    kernel_type, parameters = _kernel_of(model)
    classes, layout = getattr(model, "classes_", None), layout_of(model)
    sign = -1 if classes is not None and len(classes) == 2 else 1
    vectors, intercept = _vectors_of(model, kernel_type, first_index)
    vectors = vectors[layout.rows]
    rho = -sign * intercept + 0.0  # and no minus before a zero
    head: dict[str, object] = {
        "svm_type": next(name for name, kind in MACHINES.items() if kind is type(model)),
        "kernel_type": kernel_type,
        **{name: repr(parameters[name]) for name in _KERNELS[kernel_type]},
        "nr_class": 2 if classes is None else len(classes),
        "total_sv": len(layout.rows),
        "rho": " ".join(map(repr, rho.tolist())),
    }
    if classes is not None:
        head["label"] = " ".join(map(str, whole_labels(classes, "LIBSVM")))
        head["nr_sv"] = " ".join(map(str, layout.counts))
    with atomic_write(path) as part, part.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(f"{name} {value}\n" for name, value in head.items())
        file.write("SV\n")
        for row, coef in enumerate((sign * layout.coef).T.tolist()):
            span = slice(vectors.indptr[row], vectors.indptr[row + 1])
            values = vectors.data[span]
            values = values.astype(np.int64) if kernel_type == "precomputed" else values
            pairs = zip(vectors.indices[span].tolist(), values.tolist(), strict=True)
            words = [*map(repr, coef), *(f"{index}:{value!r}" for index, value in pairs)]
            file.write(" ".join(words) + " \n")


def layout_of(model: BaseEstimator) -> Layout:
    """Return the layout of a fitted kernel machine."""
    coef = to_dense(model.dual_coef_)
    n, counts, n_classes = coef.shape[1], np.asarray(model.n_support_, np.int32), len(getattr(model, "classes_", ()))
    if n_classes == 0 or len(coef) == n_classes - 1:
        return Layout(coef, counts, np.arange(n))
    # All pairs share all vectors. So each class but the last repeats them, with coefficients of its later pairs.
    repeated = np.zeros((n_classes - 1, n_classes - 1, n))
    for (a, b), values in zip(class_pairs(n_classes), coef, strict=True):
        repeated[b - 1, a] = values
    return Layout(
        repeated.reshape(n_classes - 1, -1),
        np.array([n] * (n_classes - 1) + [0], np.int32),
        np.tile(np.arange(n), n_classes - 1),
    )


def _kernel_of(model: BaseEstimator) -> tuple[str, dict[str, float]]:
    """Return the kernel's name in the text, and its parameters."""
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel is None:
        return "precomputed", {}
    name = next((name for name in _KERNELS if kernel_name(kernel) == _NAMES.get(name, name)), None)
    if name is None:
        raise ValueError(
            "LIBSVM has the kernels linear, polynomial, rbf, sigmoid and precomputed, this model has "
            f"{model.kernel!r}. fastsvm.to_sklearn returns an estimator that does not need fastsvm."
        )
    return name, kernel._asdict()


def _vectors_of(model: BaseEstimator, kernel_type: str, first_index: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the model's support vectors in columns from `first_index`, and intercepts."""
    intercept = np.asarray(model.intercept_, np.float64)
    if kernel_type == "precomputed":
        return sparse.csr_matrix(np.asarray(model.support_, np.float64)[:, None] + 1), intercept
    map_ = Standardization.of_model(model)
    vectors = standardized(model.support_vectors_, map_)
    if map_ is not None:
        if kernel_type != "linear":
            raise ValueError(
                f"The text takes samples as they are, but the kernel {model.kernel!r} is of standardised ones. Scale "
                "the samples before the fit, by sklearn.preprocessing.MinMaxScaler or svm-scale, and fit with "
                "standardize=False."
            )
        # k(z, (x - shift) scale) = (z scale)·x - (z scale)·shift
        vectors = standardized(vectors, Standardization(None, map_.scale))
        if map_.shift is not None:
            intercept = intercept - model._coefficients() @ (vectors @ map_.shift)
    rows = MemorySource.of(vectors).block.compressed(np.float64).user_array().copy()
    rows.sort_indices()
    rows.eliminate_zeros()
    data, indices, indptr = rows.data, rows.indices + first_index, rows.indptr
    # The first support vector shows it by a value of the first feature.
    if first_index == 0 and len(indptr) > 1 and (indices > 0).all():
        data, indices = np.concatenate([[0.0], data]), np.concatenate([[0], indices])
        indptr = np.concatenate([[0], indptr[1:] + 1])
    return sparse.csr_matrix((data, indices, indptr), shape=(rows.shape[0], rows.shape[1] + first_index)), intercept
