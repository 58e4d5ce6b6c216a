"""What several estimators share is documented once, in a base, and each estimator's docstring has it."""

import ast
import functools
import importlib
import inspect
import re
from collections import Counter

import pytest

import fastsvm
from fastsvm.estimators.fitting import documentation
from fastsvm.estimators.fitting.documentation import documented
from fastsvm.estimators.registry import ESTIMATORS

try:
    from fastsvm import dask as cluster
except ImportError:  # without the extra
    cluster = None

ON_CLUSTER = () if cluster is None else [getattr(cluster, name) for name in cluster.__all__ if name in fastsvm.__all__]
PUBLIC = [*dict.fromkeys([*ESTIMATORS.values(), fastsvm.NystroemFeatures, fastsvm.SVCSearch]), *ON_CLUSTER]


class Base:
    """What estimators share.

    Parameters
    ----------
    C : float, default=1.0
        Factor.
    gamma : float, default=0.1
        Width,
        in two lines.

    Attributes
    ----------
    n_iter_ : int
        Steps.
    b_ : float
        Shared.

    References
    ----------
    A paper.
    """


def test_docstring_has_parameters_in_the_order_of_the_signature_and_attributes_in_that_of_the_alphabet():
    @documented
    class Machine(Base):
        """A machine.

        It learns.

        Parameters
        ----------
        nu : float, default=0.5
            Share.

        Attributes
        ----------
        a_ : float
            Own.
        b_ : float
            Otherwise.

        Examples
        --------
        >>> 1 + 1
        2
        """

        def __init__(self, *, gamma=0.1, nu=0.5):
            pass

    assert inspect.getdoc(Machine) == inspect.cleandoc(
        """A machine.

        It learns.

        Parameters
        ----------
        gamma : float, default=0.1
            Width,
            in two lines.
        nu : float, default=0.5
            Share.

        Attributes
        ----------
        a_ : float
            Own.
        b_ : float
            Otherwise.
        n_iter_ : int
            Steps.

        References
        ----------
        A paper.

        Examples
        --------
        >>> 1 + 1
        2
        """
    )


def test_parameter_that_does_not_exist_is_refused():
    class Machine(Base):
        """A machine.

        Parameters
        ----------
        mu : float, default=0.5
            Share.
        """

        def __init__(self, *, C=1.0):
            pass

    with pytest.raises(ValueError, match=r"Machine does not describe \[\], or describes \['mu'\]"):
        documented(Machine)


def test_parameter_without_description_is_refused():
    class Machine(Base):
        """A machine."""

        def __init__(self, *, C=1.0, nu=0.5):
            pass

    with pytest.raises(ValueError, match=r"Machine does not describe \['nu'\], or describes \[\]"):
        documented(Machine)


def test_class_without_docstring_is_returned_as_it_is():
    class Machine(Base):
        def __init__(self, *, nu=0.5):
            pass

    Machine.__doc__ = None
    assert documented(Machine) is Machine and Machine.__doc__ is None


@functools.cache
def written(cls):
    """Return the docstring of a class as its file has it, in which bases have added nothing."""
    tree = ast.parse(inspect.getsource(importlib.import_module(cls.__module__)))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    return ast.get_docstring(found) or ""


def own_entries(cls, title):
    return documentation._entries(type(cls.__name__, (), {"__doc__": written(cls)}), title)


def classes():
    """Return the public estimators and their bases."""
    found = dict.fromkeys(base for cls in PUBLIC for base in cls.__mro__)
    return [cls for cls in found if cls.__module__.startswith("fastsvm.")]


@pytest.mark.parametrize("title", ["Parameters", "Attributes"])
def test_nothing_is_said_twice(title):
    said = Counter(text for cls in classes() for text in own_entries(cls, title).values())
    assert not [text for text, count in said.items() if count > 1]


def test_bases_describe_no_parameters_that_nothing_has():
    for base in classes():
        of_base = {name for cls in PUBLIC if issubclass(cls, base) for name in inspect.signature(cls).parameters}
        assert own_entries(base, "Parameters").keys() <= of_base


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: f"{cls.__module__.split('.')[1]}.{cls.__name__}")
def test_documented_defaults_are_those_of_the_signature(cls):
    parameters = inspect.signature(cls).parameters
    entries = documentation._entries(cls, "Parameters")
    assert list(entries) == list(parameters)
    for name, text in entries.items():
        stated = re.search("default=(.*)", text.partition("\n")[0])
        if stated is not None and stated[1] != "nan":
            assert ast.literal_eval(stated[1]) == parameters[name].default


WITHOUT_DOCSTRINGS = """
import importlib._bootstrap_external as files

def compiled(loader, code, path, **given):
    return compile(code, path, "exec", dont_inherit=True, optimize=2)

def no_path(path, **given):
    raise NotImplementedError  # nor is code with docstrings loaded

files.SourceLoader.source_to_code, files.cache_from_source = compiled, no_path
import fastsvm
assert fastsvm.SVC.__doc__ is None
fastsvm.SVC(C=2.0)
"""


def test_package_is_imported_without_docstrings(importing):
    """As by `python -OO`, which would compile scikit-learn, SciPy and Numba anew."""
    importing.run(WITHOUT_DOCSTRINGS)
