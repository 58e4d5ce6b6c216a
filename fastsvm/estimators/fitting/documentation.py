"""Parameters and docstrings of public classes and functions: what several share is stated once, in a base."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field, make_dataclass
from inspect import Parameter
from typing import ClassVar, TypeVar, dataclass_transform, get_origin

_Estimator = TypeVar("_Estimator", bound=type)
_Function = TypeVar("_Function", bound=Callable)
_STARS: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")


class PublicEstimator:
    """What all estimators share: a page of the site, which scikit-learn's base class asks for, and these names.

    Parameters
    ----------
    verbose : bool or int, default=False
        Show progress, and at the end the certificate: a bar on a terminal or in a notebook, elsewhere a line now and
        then, on standard error or to the handlers of the logger `fastsvm`.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has them.
    """

    _doc_link_module = "fastsvm"
    _doc_link_template = "https://fastsvm.github.io/fastsvm/reference/generated/fastsvm.{estimator_name}.html"


class Learning:
    """What methods that learn from samples have in common.

    Parameters
    ----------
    X : array-like, CSR matrix, DataFrame, h5py.Dataset, h5py.Group, HDF5Data or Source, \
shape (n_samples, n_features)
        Samples; they are not copied.
    y : array-like of shape (n_samples,) or None
        Labels, numbers or strings, or targets, real numbers. None takes those that come with an `HDF5Data`.
    sample_weight : array-like of shape (n_samples,) or None
        Weights of the samples in the mean. Samples of weight 0 are left out.

    Returns
    -------
    estimator
        The estimator itself.

    Raises
    ------
    ValueError
        If a parameter or the data are not usable, or numbers overflow; the message says what was found.
    """


@dataclass_transform()
def parametrised(cls: _Estimator) -> _Estimator:
    """Give an estimator a constructor with its parameters, which are written as the fields of a dataclass.

    They are its public annotated attributes with a default, and then those of its bases that have this decorator.
    """
    own, later = inspect.get_annotations(cls), False
    parameters: dict[str, Parameter] = {}
    for name, annotation in own.items():
        later = later or annotation is KW_ONLY
        if name in vars(cls) and not name.startswith("_") and get_origin(annotation) is not ClassVar:
            kind = Parameter.KEYWORD_ONLY if later else Parameter.POSITIONAL_OR_KEYWORD
            parameters[name] = Parameter(name, kind, default=vars(cls)[name], annotation=annotation)
    for base in cls.__mro__[-2:0:-1]:
        if "__init__" in vars(base):
            of_base = inspect.signature(base.__init__).parameters  # type: ignore[misc]
            parameters |= {name: of_base[name] for name in list(of_base)[1:] if name not in own}
    cls.__init__ = constructor(cls.__name__, parameters.values())  # type: ignore[misc]
    return cls


def constructor(name: str, parameters: Iterable[Parameter]) -> Callable[..., None]:
    """Return a method that keeps its arguments as attributes of the same names.

    It is that of a dataclass of this name. Estimators are none, because Dask takes these for their fields alone.
    """
    fields = [
        (one.name, one.annotation, field(default=one.default, kw_only=one.kind is Parameter.KEYWORD_ONLY))
        for one in parameters
    ]
    return make_dataclass(name, fields, repr=False, eq=False, match_args=False).__init__  # type: ignore[misc]


def documented(cls: _Estimator) -> _Estimator:
    """Complete the docstring of an estimator by what its bases say, also of other parameters."""
    if cls.__doc__:  # python -OO has none
        names = list(inspect.signature(cls.__init__).parameters)[1:]  # type: ignore[misc]
        cls.__doc__ = documentation(cls, names, described(cls, "Parameters"), described(cls, "Attributes"))
    return cls


def documentation(cls: type, names: Sequence[str], parameters: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    """Return the docstring of a class with parameters in the order of `names` and attributes in alphabetical order."""
    missing = [name for name in names if name not in parameters]
    unknown = [name for name in _entries(cls, "Parameters") if name not in names]
    if missing or unknown:
        raise ValueError(f"{cls.__name__} does not describe {missing}, or describes {unknown}, which it does not have.")
    (_, summary), *rest = _sections(cls.__doc__ or "").items()
    sections = {"Parameters": "\n".join(parameters[name] for name in names)}
    sections["Attributes"] = "\n".join(attributes[name] for name in sorted(attributes))
    sections["References"] = ""  # which come before the examples
    for base in _described_by(cls)[::-1]:
        own = _sections(base.__doc__ or "").items()
        sections |= {title: text for title, text in own if title in ("References", "Examples")}
    sections |= {title: text for title, text in rest if title not in sections}
    return _joined(summary, sections)


def documented_by(shared: type) -> Callable[[_Function], _Function]:
    """Complete the docstring of a function by what a class says of its parameters, of what it returns and raises."""

    def complete(function: _Function) -> _Function:
        if function.__doc__ and shared.__doc__:  # python -OO has none
            (_, summary), *rest = _sections(function.__doc__).items()
            parameters = described(shared, "Parameters") | _entries(function, "Parameters")
            arguments = inspect.signature(function).parameters.values()
            names = [_STARS.get(one.kind, "") + one.name for one in arguments if one.name not in ("self", "cls")]
            own, common = dict(rest), _sections(shared.__doc__)
            sections = {"Parameters": "\n".join(parameters[name] for name in names)}
            sections["Returns"] = own.get("Returns", common.get("Returns", ""))
            sections["Raises"] = "\n".join(filter(None, (own.get("Raises"), common.get("Raises"))))
            own = {title: common[title] for title in ("Examples",) if title in common} | own
            function.__doc__ = _joined(
                summary, sections | {title: own[title] for title in own if title not in sections}
            )
        return function

    return complete


def _joined(summary: str, sections: Mapping[str, str]) -> str:
    """Return a docstring of the sections that are not empty."""
    texts = (f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text)
    return "\n\n".join([summary, *texts]) + "\n"


def described(cls: type, title: str) -> dict[str, str]:
    """Return the entries of a class in a section, and those of its bases that it does not have, by name."""
    entries: dict[str, str] = {}
    for base in _described_by(cls)[::-1]:
        entries |= _entries(base, title)
    return entries


def _described_by(cls: type) -> list[type]:
    """Return a class and those of its bases whose docstrings describe it too."""
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] not in ("builtins", "sklearn")]


def _entries(cls: type | Callable, title: str) -> dict[str, str]:
    """Return the entries of a section of the own docstring of a class or a function."""
    text = _sections(cls.__doc__ or "").get(title)
    return {} if text is None else {entry.partition("\n")[0].partition(" : ")[0]: entry for entry in _ENTRY.split(text)}


@functools.cache
def _sections(docstring: str) -> dict[str, str]:
    """Return the sections of a docstring by their titles; what comes before the first one has none."""
    summary, *rest = _TITLE.split(inspect.cleandoc(docstring))
    texts = [text.strip() for text in rest[1::2]]
    return {"": summary.strip()} | dict(zip(rest[::2], texts, strict=True))
