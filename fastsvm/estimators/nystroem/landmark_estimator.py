"""What all estimators with landmarks have in common: their parameters, and how the kernel sees samples."""

from typing import Any

import numpy as np

from fastsvm.estimators.fitting.parameters import Rule, either, number, one_of
from fastsvm.estimators.fitting.validation import STATISTICS, check_columns
from fastsvm.estimators.kernel.kernel_parameter import (
    KERNEL_RULES,
    KernelEstimator,
    check_kernel,
    is_precomputed,
    resolve_gamma,
)
from fastsvm.estimators.kernel.standardization import SampleGeometry, Standardization, attributes_of, warn_of_lengths
from fastsvm.estimators.nystroem.landmarks import Chosen
from fastsvm.sources import Source, feature_statistics

__all__ = ["LANDMARK_RULES", "ROWS", "LandmarkEstimator"]

ROWS = Rule(lambda value: hasattr(value, "shape") or isinstance(value, (list, tuple)), "rows of samples")
"""Rule of given landmarks."""
LANDMARK_RULES = KERNEL_RULES | {
    "n_components": either(one_of("auto"), number(integral=True, least=1)),
    "landmarks": either(one_of("uniform", "rpcholesky"), ROWS),
    "rank_tol": number(least=0, below=1),
}
"""Rules of the parameters of landmarks and kernels."""


class LandmarkEstimator(KernelEstimator):
    """An estimator with a kernel and landmarks.

    Parameters
    ----------
    kernel : str, callable or kernel object, default="rbf"
        As for `SVC`: "linear", "poly", "rbf", "laplacian", "exponential", a function of two blocks of samples, or an
        object such as `fastsvm.kernels.RBF(0.5)`. It must be positive semi-definite. Kernel values cannot be
        precomputed.
    n_components : "auto" or int, default="auto"
        Number of landmarks, at most that of the distinct samples. "auto" is the smallest of 64, 128, ..., 2,048 with
        which `trace_error_` is at most .01, fewer if the memory asks for it. The time of a fit grows with its square.
    rank_tol : float, default=1e-6
        Directions of the landmarks whose eigenvalue is at most this share of the largest are left out.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks, and of the order in which a machine processes samples.

    Attributes
    ----------
    components_ : array or CSR matrix, shape (n_landmarks, n_features)
        The landmarks, as they were passed.
    component_indices_ : ndarray of int64, shape (n_landmarks,)
        Numbers of the samples that are landmarks; missing if an array of landmarks was passed.
    rank_ : int
        Number of new features: directions of the landmarks that were kept.
    trace_error_ : float
        Share of the trace of the kernel matrix that the features do not have, measured on at most 1,024 samples.
    """

    memory: int | str

    def _check_landmark_kernel(self) -> None:
        """Raise ValueError for a kernel that landmarks cannot have."""
        check_kernel(self.kernel)
        if is_precomputed(self):
            raise ValueError(
                f"{type(self).__name__} computes kernel values with landmarks, and X would hold all of them: pass "
                "features and a kernel, or use SVC with kernel='precomputed'."
            )

    def _standardized(self, source: Source, weight: np.ndarray) -> Source:
        """Return the samples as they are passed; the map to standardised ones, and gamma, are attributes."""
        check_columns(self.memory, source.shape[1], STATISTICS)
        weights = None if (weight == weight[0]).all() else weight
        standardization = Standardization.of(source, weights) if self.standardize else None
        seen = source if standardization is None else standardization.apply(source)
        statistics = feature_statistics(seen, weights)
        if standardization is None:
            warn_of_lengths(type(self).__name__, statistics, len(source), source.sparse)
        gamma = resolve_gamma(self.gamma, source.shape[1], statistics.variance)
        self.__dict__.update(SampleGeometry.of(gamma, statistics).attributes() | attributes_of(standardization))
        return source

    def _landmark_attributes(self, chosen: Chosen, places: np.ndarray | None) -> dict[str, Any]:
        """Return the fitted attributes of landmarks; `places` are the numbers of the samples that are learnt."""
        found = {"components_": chosen.features.landmarks, "rank_": chosen.features.rank}
        if chosen.places is not None:
            found["component_indices_"] = chosen.places if places is None else places[chosen.places]
        return found | {"trace_error_": chosen.trace_error}
