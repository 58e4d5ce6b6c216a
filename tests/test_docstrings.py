"""Docstrings: those of the public API are complete, and all examples run."""

import doctest
import importlib
import inspect
import pkgutil

import matplotlib
import pytest
from numpydoc.validate import validate

import fastsvm
from fastsvm import displays, kernels

try:
    from fastsvm import dask as cluster
except ImportError:  # without the extra
    cluster = None

PUBLIC = ("fastsvm", "fastsvm.kernels", "fastsvm.displays", "fastsvm.dask")
NOT_ASKED = {
    "ES01",  # an extended summary
    "EX01",  # examples of each method; `test_public_classes_and_functions_have_examples` asks for those that matter
    "SA01",  # See Also
}


def public_objects():
    """Return the public classes and functions, and the public methods of the classes, by their full names.

    A method that several classes inherit is there once.
    """
    found, seen = {}, set()
    for module in (fastsvm, kernels, displays, *([] if cluster is None else [cluster])):
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            found[f"{module.__name__}.{name}"] = value
            for member, kind in members_of(value) if inspect.isclass(value) else ():
                if id(kind) not in seen:
                    seen.add(id(kind))
                    found[f"{module.__name__}.{name}.{member}"] = getattr(value, member)
    return found


def members_of(cls):
    """Return the public methods and properties of a class by name, and those that it inherits within the package."""
    bases = [base for base in reversed(cls.__mro__) if base is cls or base.__module__.startswith("fastsvm.")]
    members = {name: kind for base in bases for name, kind in vars(base).items() if not name.startswith("_")}
    return [
        (name, kind)
        for name, kind in members.items()
        if isinstance(kind, (staticmethod, classmethod, property)) or callable(kind)
    ]


MODULES = [
    module.name
    for module in pkgutil.walk_packages(fastsvm.__path__, "fastsvm.")
    if "__main__" not in module.name and (cluster is not None or not module.name.startswith("fastsvm.dask"))
]


@pytest.mark.parametrize("name", public_objects())
def test_public_docstrings_are_complete(name):
    problems = [(code, text) for code, text in validate(name)["errors"] if code not in NOT_ASKED]
    assert not problems


@pytest.mark.parametrize(
    "name", [name for name in public_objects() if name.count(".") == 1 + name.startswith(PUBLIC[1:])]
)
def test_public_classes_and_functions_have_examples(name):
    assert ">>>" in (public_objects()[name].__doc__ or "")


def with_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in MODULES:
        for test in finder.find(importlib.import_module(name), name):
            if test.examples:
                yield pytest.param(test, id=test.name)


@pytest.mark.parametrize("test", list(with_examples()))
def test_examples_run(test, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
    assert runner.tries
