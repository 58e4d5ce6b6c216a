"""Checks of constructor parameters, made when `fit` begins."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError

__all__ = ["NU", "Rule", "boolean", "check_parameters", "either", "number", "one_of", "optional", "seed"]


class Rule(NamedTuple):
    """What a parameter must be: a test and the words for it."""

    holds: Callable[[Any], bool]
    words: str


def number(
    *,
    integral: bool = False,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> Rule:
    """Return the rule of a finite number, of at least `least` or above `above`, at most `most` or below `below`."""
    words = ("an int" if integral else "a finite number") + (f" of at least {least}" if least is not None else "")
    words += f" above {above}" if above is not None else ""
    words += f" and at most {most}" if most is not None else ""
    words += f" and below {below}" if below is not None else ""

    def holds(value: Any) -> bool:
        return (
            _is_finite(value, integral)
            and (least is None or value >= least)
            and (above is None or value > above)
            and (most is None or value <= most)
            and (below is None or value < below)
        )

    return Rule(holds, words)


def _is_finite(value: Any, integral: bool) -> bool:
    try:
        if type(value) is int or (type(value) is float and not integral):  # whose abstract classes take long to ask
            return math.isfinite(value)
        kind = Integral if integral else Real
        return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def one_of(*names: str) -> Rule:
    """Return the rule of a name from a list."""
    return Rule(lambda value: isinstance(value, str) and value in names, "one of " + ", ".join(map(repr, names)))


def optional(rule: Rule) -> Rule:
    """Return the rule that None passes too."""
    return Rule(lambda value: value is None or rule.holds(value), f"None or {rule.words}")


def either(*rules: Rule) -> Rule:
    """Return the rule that is met if one of `rules` is."""
    return Rule(lambda value: any(rule.holds(value) for rule in rules), " or ".join(rule.words for rule in rules))


boolean = Rule(lambda value: type(value).__name__ in ("bool", "bool_"), "a bool")


def _is_seed(value: Any) -> bool:
    try:
        check_random_state(value)
    except ValueError:
        return False
    return True


NU = Rule(lambda value: _is_finite(value, False) and 0 < value <= 1, "a float in the range (0.0, 1.0]")
"""The rule of a parameter ν."""

seed = Rule(_is_seed, f"None, an int from 0 to {2**32 - 1} or a numpy.random.RandomState")


def check_parameters(estimator: BaseEstimator, rules: dict[str, Rule]) -> None:
    """Raise scikit-learn's InvalidParameterError, a ValueError, for the first parameter that breaks its rule."""
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.holds(value):
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {rule.words}. Got {value!r} instead."
            )
