"""scikit-learn's callbacks where it has them (1.9 and later), and nothing in their place where not."""

from collections.abc import Callable
from typing import Any

try:
    from sklearn import callback
except ImportError:
    callback = None

from fastsvm.estimators.fitting.documentation import PublicEstimator

__all__ = ["IterativeEstimator", "with_callbacks"]


class _NoCallbacks:
    """Stands in for the mixin of newer versions of scikit-learn; there are no callbacks."""


def _unchanged(method: Callable) -> Callable:
    return method


_CallbackSupport: Any = _NoCallbacks if callback is None else callback.CallbackSupportMixin
with_callbacks: Callable[[Callable], Callable] = _unchanged if callback is None else callback.with_callbacks


class IterativeEstimator(PublicEstimator, _CallbackSupport):
    """An estimator whose fit takes steps until it converges, and tells callbacks of them.

    Parameters
    ----------
    max_time : float or None, default=None
        Time limit of a fit in seconds.

    Attributes
    ----------
    intercept_ : ndarray of float64, shape (1,)
        Intercept.
    stop_reason_ : str
        "converged", or why the fit ended before: "max_iter", "max_time", "callback", "stalled".
    """
