"""scikit-learn's callbacks where it has them (1.9 and later), and nothing in their place where not."""

from collections.abc import Callable
from typing import Any

try:
    from sklearn import callback
except ImportError:
    callback = None

__all__ = ["CallbackSupportMixin", "with_callbacks"]


class _NoCallbacks:
    """Stands in for the mixin of newer versions of scikit-learn; there are no callbacks."""


def _unchanged(method: Callable) -> Callable:
    return method


CallbackSupportMixin: Any = _NoCallbacks if callback is None else callback.CallbackSupportMixin
with_callbacks: Callable[[Callable], Callable] = _unchanged if callback is None else callback.with_callbacks
