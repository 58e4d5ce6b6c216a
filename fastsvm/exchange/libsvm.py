"""Kernel machines and LIBSVM's text.

LIBSVM subtracts `rho`, its classes have any order, and of two classes a positive decision stands for the first one.
The estimators add an intercept, their classes are sorted, and of two a positive decision stands for the second.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.estimators.kernel.standardization import Standardization
from fastsvm.exchange.imported import KernelParts, estimator_named, kernel_model
from fastsvm.exchange.labels import whole_labels
from fastsvm.exchange.libsvm_text import LibsvmText
from fastsvm.kernels import RBF, Linear, Polynomial, Sigmoid
from fastsvm.multiclass import class_pairs
from fastsvm.sources import MemorySource, Origin

__all__ = ["MACHINES", "Layout", "layout_of", "libsvm_text_of", "model_of_libsvm_text"]


class Machine(NamedTuple):
    """A machine of LIBSVM, by its name in the text, and its estimator.

    `rho_attribute` is the fitted attribute that is `rho`, if there is one beside the intercept, which is minus `rho`.
    """

    svm_type: str
    estimator: str
    rho_attribute: str | None = None


MACHINES = (
    Machine("c_svc", "SVC"),
    Machine("nu_svc", "NuSVC"),
    Machine("one_class", "OneClassSVM", "offset_"),
    Machine("epsilon_svr", "SVR"),
    Machine("nu_svr", "NuSVR"),
)
_KERNELS = {"linear": Linear, "polynomial": Polynomial, "rbf": RBF, "sigmoid": Sigmoid}
_NAMES = {"polynomial": "poly"}  # in parameters, where they differ from those of the text


# --- from text to a model --------------------------------------------------------------------------------


def model_of_libsvm_text(text: LibsvmText, n_features: int | None, first_index: int | None) -> Any:
    """Return the estimator that a text describes.

    `n_features` is the number of features, or of samples of a precomputed kernel; None for as many as the text
    mentions. `first_index`, 0 or 1, is the index of the first feature; None for 0 if the text has the index 0, else 1.
    ValueError says that there is no such estimator, or that the text asks for more features.
    """
    machine = next(each for each in MACHINES if each.svm_type == text.svm_type)
    has_zero = bool((text.vectors.indices == 0).any())
    first = (0 if has_zero else 1) if first_index is None else first_index
    if has_zero and first == 1 and text.kernel_type != "precomputed":
        raise ValueError("first_index=1, but a support vector has the index 0")
    kind = estimator_named(machine.estimator)
    name = _NAMES.get(text.kernel_type, text.kernel_type)
    counts, sign = np.array([text.coef.shape[1]]), 1
    if text.labels is not None and text.counts is not None:
        sign = -1 if len(text.counts) == 2 else 1
        text, counts = _in_order_of_labels(text, text.labels, text.counts)
    parts = KernelParts(
        dual_coef=sign * text.coef,
        intercept=-sign * text.rho,
        n_support=counts,
        classes=text.labels,
        gamma=text.parameters.get("gamma", 0.0),
        **_samples(text, n_features, first),
    )
    known = {} if machine.rho_attribute is None else {machine.rho_attribute: text.rho}
    model = kernel_model(kind, {"kernel": name, **text.parameters}, parts, **known)
    if text.kernel_type != "precomputed":
        model._origin = Origin(first, sure=has_zero or first_index is not None)
    return model


def _samples(text: LibsvmText, n_features: int | None, first: int) -> dict[str, Any]:
    """Return support vectors, and what is known of the samples that they were among."""
    if text.kernel_type == "precomputed":
        numbers = np.asarray(text.vectors[:, [0]].toarray()).ravel()
        if (numbers < 1).any() or (numbers % 1 != 0).any() or len(set(numbers.tolist())) < len(numbers):
            raise ValueError("the numbers of support vectors of a precomputed kernel must be whole, from 1, different")
        found = int(numbers.max(initial=1))
        n = _at_least(found, n_features, f"sample {found}")
        return {"support_vectors": np.empty((0, 0)), "support": numbers.astype(np.int64) - 1, "shape_fit": (n, n)}
    vectors = text.vectors[:, first:]
    vectors.sort_indices()
    n, found = vectors.shape
    d = _at_least(max(found, 1), n_features, f"feature {found}")
    vectors = sparse.csr_matrix((vectors.data, vectors.indices, vectors.indptr), shape=(n, d))
    stored: Any = vectors.toarray() if 2 * vectors.nnz >= n * d else vectors  # half of the values are not zero
    return {"support_vectors": stored, "support": np.arange(n), "shape_fit": (max(n, 1), d)}


def _at_least(found: int, wanted: int | None, what: str) -> int:
    if wanted is not None and wanted < found:
        raise ValueError(f"n_features={wanted}, but the text mentions {what}; leave it out or raise it")
    return found if wanted is None else int(wanted)


def _in_order_of_labels(text: LibsvmText, labels: np.ndarray, counts: np.ndarray) -> tuple[LibsvmText, np.ndarray]:
    """Return the same model with its classes sorted, and their numbers of support vectors.

    A pair whose classes swap their places changes its sign.
    """
    order = np.argsort(labels)
    start = np.cumsum(counts) - counts
    spans = [np.arange(start[c], start[c] + counts[c]) for c in order]
    pairs = class_pairs(len(order))
    number = {pair: k for k, pair in enumerate(pairs)}
    coef, rho = np.zeros_like(text.coef), np.zeros_like(text.rho)
    to = np.cumsum(counts[order]) - counts[order]
    for k, (a, b) in enumerate(pairs):
        p, q = int(order[a]), int(order[b])
        sign = 1.0 if p < q else -1.0
        rho[k] = sign * text.rho[number[min(p, q), max(p, q)]]
        for new, other, old, old_other in ((a, b, p, q), (b, a, q, p)):
            row, old_row = other - (other > new), old_other - (old_other > old)
            coef[row, to[new] : to[new] + counts[old]] = sign * text.coef[old_row, spans[new]]
    rows = np.concatenate(spans)
    found = text._replace(labels=labels[order], counts=counts[order], coef=coef, rho=rho, vectors=text.vectors[rows])
    return found, counts[order]


# --- from a model to text --------------------------------------------------------------------------------


def libsvm_text_of(model: Any, standardized: bool, first_index: int) -> LibsvmText:
    """Return the text of a fitted kernel machine, whose first feature has the index `first_index`, 0 or 1.

    `standardized` says whether the samples that the text is for are standardised as the model standardises them.
    ValueError says that LIBSVM has no such kernel or labels, or that the model standardises features and the samples
    are not.
    """
    svm_type = next(each.svm_type for each in MACHINES if each.estimator == type(model).__name__)
    kernel_type, parameters = _kernel_of(model)
    classes = getattr(model, "classes_", None)
    sign = -1 if classes is not None and len(classes) == 2 else 1
    layout = layout_of(model)
    vectors, intercept = _vectors_of(model, kernel_type, standardized)
    vectors = vectors if first_index or kernel_type == "precomputed" else _counted_from_0(vectors)
    return LibsvmText(
        svm_type=svm_type,
        kernel_type=kernel_type,
        parameters=parameters,
        rho=-sign * intercept + 0.0,  # and no minus before a zero
        labels=None if classes is None else whole_labels(classes, "LIBSVM"),
        counts=None if classes is None else layout.counts,
        coef=sign * layout.coef,
        vectors=vectors[layout.rows],
    )


class Layout(NamedTuple):
    """Support vectors as LIBSVM arranges them: `coef` has shape (n_classes - 1, n_vectors)."""

    coef: np.ndarray
    counts: np.ndarray  # They count the vectors of each class.
    rows: np.ndarray  # They tell which support vector of the model each is.


def layout_of(model: Any) -> Layout:
    """Return the layout of a fitted kernel machine.

    A pair of classes has vectors of these two classes only. In a compressed model of three classes and more all pairs
    share all vectors. So they are repeated for each class but the last, and those of a class have its coefficients in
    the pairs with the classes after it.
    """
    coef: Any = model.dual_coef_
    coef = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
    n, counts, n_classes = coef.shape[1], np.asarray(model.n_support_, np.int32), len(getattr(model, "classes_", ()))
    if n_classes == 0 or len(coef) == n_classes - 1:
        return Layout(coef, counts, np.arange(n))
    repeated = np.zeros((n_classes - 1, n_classes - 1, n))
    for (a, b), values in zip(class_pairs(n_classes), coef, strict=True):
        repeated[b - 1, a] = values
    return Layout(
        repeated.reshape(n_classes - 1, -1),
        np.array([n] * (n_classes - 1) + [0], np.int32),
        np.tile(np.arange(n), n_classes - 1),
    )


def _kernel_of(model: Any) -> tuple[str, dict[str, float]]:
    """Return the kernel's name in the text, and its parameters."""
    kernel: Any = resolve_kernel(model, model._gamma)
    if kernel is None:
        return "precomputed", {}
    name = next((name for name, kind in _KERNELS.items() if type(kernel) is kind), None)
    if name is None:
        raise ValueError(
            f"LIBSVM has the kernels {', '.join(_KERNELS)} and precomputed, this model has {model.kernel!r}. "
            "fastsvm.to_sklearn returns an estimator that does not need fastsvm."
        )
    return name, kernel._asdict()


def _vectors_of(model: Any, kernel_type: str, standardized: bool) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the model's support vectors in columns from 1, and intercepts."""
    intercept = np.asarray(model.intercept_, np.float64)
    if kernel_type == "precomputed":
        return sparse.csr_matrix(np.asarray(model.support_, np.float64)[:, None] + 1), intercept
    vectors: Any = model.support_vectors_
    map_ = Standardization.of_model(model)
    if map_ is not None:
        vectors = map_.apply(MemorySource.of(vectors), np.float64).in_memory().block.user_array()
        if kernel_type == "linear" and not standardized:
            # k(z, (x - shift) scale) = (z scale)·x - (z scale)·shift
            vectors = vectors.multiply(map_.scale).tocsr() if sparse.issparse(vectors) else vectors * map_.scale
            if map_.shift is not None:
                intercept = intercept - model._coefficients() @ (vectors @ map_.shift)
        elif not standardized:
            raise ValueError(
                f"With standardize=True and the kernel {model.kernel!r}, the text is for standardised samples. Pass "
                "range_path=, a file to write, with which svm-scale -r makes these from samples as they are."
            )
    exact = vectors if sparse.issparse(vectors) else np.asarray(vectors, np.float64)  # float16 is no type of SciPy's
    rows = sparse.csr_matrix(exact).astype(np.float64)
    rows.sort_indices()
    rows.eliminate_zeros()
    return sparse.csr_matrix(
        (rows.data, rows.indices + 1, rows.indptr), shape=(rows.shape[0], rows.shape[1] + 1)
    ), intercept


def _counted_from_0(vectors: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return support vectors in columns from 0. The first one has a value of the first feature, which shows it."""
    data, indices, indptr = vectors.data, vectors.indices - 1, vectors.indptr
    if len(indptr) > 1 and (indices > 0).all():
        data, indices = np.concatenate([[0.0], data]), np.concatenate([[0], indices])
        indptr = np.concatenate([[0], indptr[1:] + 1])
    return sparse.csr_matrix((data, indices, indptr), shape=(vectors.shape[0], vectors.shape[1] - 1))
