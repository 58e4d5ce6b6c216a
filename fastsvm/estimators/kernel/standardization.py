"""What a kernel machine knows of its training samples: scale and position, and how they are standardised."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm.estimators.fitting.session import warn_caller
from fastsvm.estimators.fitting.validation import Attributes
from fastsvm.linalg.row_products import product_type
from fastsvm.sources import FeatureStatistics, ScaledSource, Source

__all__ = ["PRIVATE_ATTRIBUTES", "SampleGeometry", "Standardization", "attributes_of", "centre_of", "warn_of_lengths"]

PRIVATE_ATTRIBUTES = "_gamma", "_centre", "_sq_norm", "_centred_sq_norm", "_shift", "_scale"
"""Attributes in which a fitted kernel machine, and its file, store the geometry and the standardization."""

_NEAR_CENTRE = 0.2  # Above this share of the squared norm, centring saves little, and rounds rows near the origin.
_LONGER, _LONGER_SPARSE = 100, 1000  # Rare non-zeros alone give sparse features different lengths.
_SHARE = 0.25  # The length at this quantile of the features that vary counts as usual.


class SampleGeometry(NamedTuple):
    """Scale and position of the training samples.

    `gamma` is that of the kernel, "scale" and "auto" resolved. `centre`, if not None, is subtracted from samples before
    distances are computed. The mean squared distance is that of a sample from the centre of the samples.
    """

    gamma: float
    centre: np.ndarray | None
    largest_sq_norm: float
    mean_sq_distance: float

    @classmethod
    def of(cls, gamma: float, statistics: FeatureStatistics) -> "SampleGeometry":
        """Return the geometry of samples with these statistics."""
        return cls(gamma, centre_of(statistics), statistics.sq_norm, statistics.usual_sq_norm)

    @classmethod
    def of_model(cls, model: Any) -> "SampleGeometry":
        """Return the geometry that a fitted model stores."""
        return cls(model._gamma, model._centre, model._sq_norm, model._centred_sq_norm)

    def attributes(self) -> Attributes:
        """Return the attributes in which a fitted model, and its file, store the geometry."""
        return {
            "_gamma": self.gamma,
            "_centre": self.centre,
            "_sq_norm": self.largest_sq_norm,
            "_centred_sq_norm": self.mean_sq_distance,  # the mean, although the statistic of this name is the largest
        }


def centre_of(statistics: FeatureStatistics) -> np.ndarray | None:
    """Return the centre of samples that are far from the origin relative to their distances, else None."""
    return statistics.centre if statistics.centred_sq_norm < _NEAR_CENTRE * statistics.sq_norm else None


class Standardization(NamedTuple):
    """The map of each feature to mean 0 and variance 1, (x - shift) * scale.

    `shift` is None for sparse samples, which are not centred. `scale` is 1 for constant features.
    """

    shift: np.ndarray | None
    scale: np.ndarray

    @classmethod
    def of(cls, source: Source, weight: np.ndarray | None) -> "Standardization":
        """Return the map for the samples of a fit, after one pass over them. Weights count in means and variances."""
        view = ScaledSource.standardized(source, product_type(source.dtype), weight)
        shift = None if view.shift is None else view.shift.astype(np.float64)
        return cls(shift, view.scale.astype(np.float64))

    @classmethod
    def of_model(cls, model: Any) -> "Standardization | None":
        """Return the map that a fitted model stores, or None."""
        scale = getattr(model, "_scale", None)
        return None if scale is None else cls(model._shift, scale)

    @property
    def factor(self) -> float | None:
        """The scale, if it is the same for all features, else None."""
        return float(self.scale[0]) if (self.scale == self.scale[0]).all() else None

    def apply(self, source: Source, dtype: np.dtype | type = np.float32) -> ScaledSource:
        """Return a view of mapped samples, in float64 if their type or `dtype` has so many digits."""
        return ScaledSource(source, self.shift, self.scale, np.result_type(product_type(source.dtype), dtype))

    def training_source(self, source: Source, most_bytes: int) -> Source:
        """Return the mapped samples of a fit: a copy in memory of at most `most_bytes`, else mapped when read."""
        view = self.apply(source)
        if not source.resident:
            return view
        return view.in_memory() if view.nbytes <= most_bytes else view.streamed().in_blocks(most_bytes // 10)


def attributes_of(standardization: Standardization | None) -> Attributes:
    """Return the attributes in which a fitted model, and its file, store the map."""
    shift, scale = (None, None) if standardization is None else standardization
    return {"_shift": shift, "_scale": scale}


def warn_of_lengths(name: str, statistics: FeatureStatistics, n_rows: int, is_sparse: bool) -> None:
    """Warn if a feature is so much longer than the others that kernel values depend on it alone.

    The length of a feature is its standard deviation. It is compared with the lower quartile of the lengths of those
    that vary, because a few long features, or a rare one, must not hide the difference.
    """
    variance, longer = statistics.feature_variance, _LONGER_SPARSE if is_sparse else _LONGER
    if variance.max() <= longer**2 * variance.min():  # a glance, because the rest takes as long as a small fit
        return
    varying = statistics.varying(n_rows)
    if varying.sum() < 2:
        return
    length = np.sqrt(variance)
    place = int(_SHARE * (np.count_nonzero(varying) - 1))
    usual = float(np.partition(length[varying], place)[place])  # np.quantile takes ten times as long
    longest = int(np.argmax(length))
    if length[longest] <= longer * usual:
        return
    warn_caller(
        f"The features have very different lengths: the standard deviation of feature {longest} is "
        f"{length[longest]:.3g}, of a quarter of the others at most {usual:.3g}. {name} sees the longest alone. "
        "Pass standardize=True, or scale the features.",
        UserWarning,
    )
