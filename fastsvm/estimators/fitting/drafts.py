"""Fits that leave the estimator as it is until they succeed, and methods that see one model while another is fitted."""

import functools
from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator

__all__ = ["drafted", "of_one_model", "view_of"]

_WARM_STARTS = "_multipliers", "_fit_state"  # what an interrupted fit leaves for the next one


def drafted(fit: Callable) -> Callable:
    """Let a method fit a copy of the estimator, whose attributes become those of the estimator all at once.

    A fit that fails leaves the model of the fit before, and what it reached for a warm start.
    """

    @functools.wraps(fit)
    def fitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        draft = _with_attributes(self, dict(vars(self)))
        try:
            fit(draft, *args, **kwargs)
        except BaseException:
            vars(self).update({name: vars(draft)[name] for name in _WARM_STARTS if name in vars(draft)})
            raise
        self.__dict__ = vars(draft)
        return self

    return fitted


def of_one_model(method: Callable) -> Callable:
    """Let a method read the attributes of one model, although another thread may fit the estimator anew."""

    @functools.wraps(method)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(view_of(self), *args, **kwargs)

    return read


def view_of(estimator: BaseEstimator) -> Any:
    """Return an estimator that shares the attributes, until a fit gives the other one new attributes."""
    return _with_attributes(estimator, vars(estimator))


def _with_attributes(estimator: BaseEstimator, attributes: dict[str, Any]) -> Any:
    found = object.__new__(type(estimator))
    found.__dict__ = attributes
    return found
