"""What prediction with a kernel machine must know of the training samples, beside the support vectors."""

from typing import Any, NamedTuple

import numpy as np

from fastsvm.sources import FeatureStatistics

__all__ = ["SampleGeometry", "centre_of"]

_NEAR_CENTRE = 0.2  # Above this share of the squared norm, centring saves little, and rounds rows near the origin.


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

    def attributes(self) -> dict[str, Any]:
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
