"""Kernels passed as objects: ours, a user's function or object, and a user's class with a compiled map."""

import json
import pickle
import re
from collections import namedtuple
from typing import NamedTuple

import h5py
import numpy as np
import pytest
from own_kernels import Cauchy, cauchy
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gaussian_processes
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score

import fastsvm
from fastsvm import SVC
from fastsvm._compiled.compiler import jit
from fastsvm.estimators.kernel.kernel_parameter import resolve_kernel
from fastsvm.files.array_file import read_arrays, write_arrays
from fastsvm.kernel_matrix.pairwise import Uint8Pairwise
from fastsvm.kernel_matrix.pairwise import uint8 as byte_rows
from fastsvm.kernels import (
    KERNELS,
    RBF,
    Exponential,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
    check_kernel,
    kernel_value,
)

OBJECTS = {
    "linear": Linear(),
    "poly": Polynomial(degree=2, coef0=1.0, gamma=0.5),
    "rbf": RBF(gamma=0.5),
    "sigmoid": Sigmoid(gamma=0.1, coef0=-0.5),
    "laplacian": Laplacian(gamma=0.5),
    "exponential": Exponential(gamma=0.5),
}
FITTED = ("support_", "dual_coef_", "intercept_", "objective_")


class Cosine(NamedTuple):
    """x·z / (‖x‖ ‖z‖), which needs the norms."""

    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        return 2 * eps


@kernel_value.register(Cosine)
def cosine(kernel, dot, sq_x, sq_z):
    return dot / np.sqrt(sq_x * sq_z)


def cosines(X, Z):
    X, Z = np.asarray(X, float), np.asarray(Z, float)
    return X @ Z.T / np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Z, axis=1))


def cauchies(X, Z):
    return 2 / (2 + ((X[:, None] - Z) ** 2).sum(axis=2))


@jit
def value(kernel, dot):
    return kernel_value(kernel, dot, dot, dot)


class TwiceLinear:
    """An object that is called with two blocks."""

    def __call__(self, X, Z):
        return 2 * X @ Z.T


def same(a, b, *rows):
    """Two models are the same to the last bit."""
    for name in FITTED:
        one, other = getattr(a, name), getattr(b, name)
        if sparse.issparse(one):
            one, other = one.toarray(), other.toarray()
        np.testing.assert_array_equal(one, other)
    for X in rows:
        np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def named(name, **parameters):
    return SVC(kernel=name, **OBJECTS[name]._asdict(), **parameters)


# --- ours ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda X: np.abs(3 * X).astype(np.uint8)])
@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_what_its_name_is(name, form, three_classes):
    X, y = form(three_classes[0]), three_classes[1]
    same(SVC(kernel=OBJECTS[name]).fit(X, y), named(name).fit(X, y), X)


def test_the_estimators_parameters_are_not_used(overlapping):
    a = SVC(kernel=Polynomial(degree=2, coef0=1.0, gamma=0.5), degree=5, coef0=7.0, gamma=9.0).fit(*overlapping)
    same(a, named("poly").fit(*overlapping), overlapping[0])


@pytest.mark.parametrize("number", [int, np.float32, np.float64, np.int64])
def test_parameters_may_be_numbers_of_any_type(number, overlapping):
    same(SVC(kernel=RBF(number(2))).fit(*overlapping), SVC(gamma=2.0).fit(*overlapping), overlapping[0])
    settled = resolve_kernel(SVC(kernel=Polynomial(np.int64(2), number(0), number(1))))
    assert list(map(type, settled)) == [int, float, float]  # one type, so that maps are compiled once


def test_rows_from_a_file(tmp_path, overlapping):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"] = overlapping
    with fastsvm.open_hdf5(tmp_path / "data.h5") as data:
        for kernel in (RBF(0.5), Cauchy()):
            found, wanted = SVC(kernel=kernel, tol=1e-9).fit(data), SVC(kernel=kernel, tol=1e-9).fit(*overlapping)
            np.testing.assert_allclose(found.decision_function(data), wanted.decision_function(overlapping[0]))


def test_coef_is_of_the_linear_object_too(overlapping):
    np.testing.assert_array_equal(
        SVC(kernel=Linear()).fit(*overlapping).coef_, SVC(kernel="linear").fit(*overlapping).coef_
    )
    assert not hasattr(SVC(kernel=RBF()).fit(*overlapping), "coef_")


@pytest.mark.skipif(byte_rows.PRODUCTS is None, reason="the processor has no byte products")
@pytest.mark.parametrize("kernel", [RBF(1e-4), Cauchy(1e4)])
def test_bytes_are_multiplied_as_bytes(kernel, monkeypatch):
    seen, prepare = [], Uint8Pairwise.prepare
    monkeypatch.setattr(Uint8Pairwise, "prepare", lambda self, block: seen.append(block) or prepare(self, block))
    X = np.random.default_rng(0).integers(0, 99, (60, 30), np.uint8)
    SVC(kernel=kernel, C=1e-3).fit(X, X[:, 0] > 50)
    assert seen


@pytest.mark.parametrize(("convention", "gamma"), [("2sigma2", 1 / 18), ("sigma2", 1 / 9)])
def test_a_width_in_both_conventions(convention, gamma):
    assert RBF.from_sigma(3, convention) == RBF(gamma)
    assert RBF.from_sigma(3) == RBF(1 / 18)


@pytest.mark.parametrize("sigma", [0, -1.0, np.nan, np.inf, "1", None, True, 1e200, 1e-200])
def test_a_width_that_is_none(sigma):
    with pytest.raises(ValueError, match="sigma must .*Got " + re.escape(repr(sigma))):
        RBF.from_sigma(sigma)


def test_a_convention_that_is_none():
    with pytest.raises(ValueError, match=r"'2sigma2'.*'sigma2'.*Got 'half'"):
        RBF.from_sigma(1.0, "half")


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF(gamma=-1.0), r"'gamma' of the kernel RBF\(gamma=-1.0\) must be a finite number of at least 0. Got -1.0"),
        (RBF(gamma=np.nan), "gamma.*finite.*nan"),
        (Laplacian(gamma="scale"), "gamma.*finite.*scale"),
        (Sigmoid(coef0=np.inf), "coef0.*finite.*inf"),
        (Polynomial(degree=2.5), "degree.*an int of at least 0.*2.5"),
        (Polynomial(degree=-1), "degree.*an int of at least 0.*-1"),
        (Cauchy(width=None), "width.*finite.*None"),
        (RBF, r"'kernel' parameter of SVC must be .*an object \(not a class\).*Got <class 'fastsvm.kernels.RBF'>"),
        (gaussian_processes.RBF, "not a class"),
        ((1.0,), r"register.*Got \(1.0,\)"),
    ],
    ids=str,
)
def test_what_is_no_kernel_is_refused(kernel, words, overlapping):
    model = SVC(kernel=kernel)
    with pytest.raises(ValueError, match=words):
        model.fit(*overlapping)
    assert not hasattr(model, "coef_")  # and asking does not fail


def test_kernels_of_different_classes_are_different():
    assert RBF(1.0) == RBF(1) and hash(RBF(1.0)) == hash(RBF(1))
    assert RBF(1.0) != Laplacian(1.0) and RBF(1.0) != (1.0,) and Linear() != "linear"
    assert len({kind() for kind in KERNELS.values()} | {RBF(1.0)}) == len(KERNELS)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_passes_the_check(name):
    check_kernel(KERNELS[name]())


def test_what_a_kernel_lacks_is_named():
    class Flat(NamedTuple):
        height: float = 1.0

    with pytest.raises(ValueError, match=r"Flat has no map: register one with @kernel_value\.register\(Flat\)"):
        check_kernel(Flat())
    kernel_value.register(Flat)(lambda kernel, dot, sq_x, sq_z: kernel.height)
    with pytest.raises(ValueError, match="has no pairing"):
        check_kernel(Flat())


# --- as a parameter of an estimator ----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [*OBJECTS.values(), Cauchy(2.0)], ids=str)
def test_what_scikit_learn_does_with_parameters(kernel, overlapping):
    model = SVC(kernel=kernel)
    assert clone(model).kernel == kernel and type(clone(model).kernel) is type(kernel)
    assert model.get_params()["kernel"] is kernel
    assert SVC().set_params(kernel=kernel).kernel is kernel
    assert repr(model) == f"SVC(kernel={kernel!r})"
    assert repr(kernel) in model._repr_html_().replace("&#x27;", "'")
    again = pickle.loads(pickle.dumps(model.fit(*overlapping)))
    assert again.kernel == kernel
    same(again, model, overlapping[0])


MIXED = ["linear", RBF(0.1), Polynomial(2, 1.0, 0.5), Cauchy(), cosines, gaussian_processes.RBF(2.0)]


@pytest.mark.parametrize("candidates", [[Linear(), Linear()], MIXED], ids=["without parameters", "mixed"])
def test_a_grid_of_kernels(candidates, overlapping):
    search = GridSearchCV(SVC(), {"kernel": candidates}, cv=3, error_score="raise").fit(*overlapping)
    assert list(search.cv_results_["param_kernel"]) == candidates
    for kernel, score in zip(candidates, search.cv_results_["mean_test_score"], strict=True):
        assert score == np.mean(cross_val_score(SVC(kernel=kernel), *overlapping, cv=3))


@pytest.mark.parametrize("name", OBJECTS)
def test_a_file_gives_the_object_back(name, tmp_path, overlapping):
    model = SVC(kernel=OBJECTS[name]).fit(*overlapping)
    fastsvm.save(model, tmp_path / "model.h5")
    stored = json.loads(np.load(tmp_path / "model.h5")["header.json"])["parameters"]["kernel"]
    again = fastsvm.load(tmp_path / "model.h5")
    assert stored == {"name": name, "parameters": OBJECTS[name]._asdict()}
    assert again.kernel == OBJECTS[name] and type(again.kernel) is type(OBJECTS[name])
    same(again, model, overlapping[0])


def test_files_with_kernels_that_are_not_known(tmp_path, overlapping):
    path = tmp_path / "model.h5"
    fastsvm.save(SVC(kernel=RBF(np.float32(0.5))).fit(*overlapping), path)
    assert fastsvm.load(path).kernel == RBF(0.5)
    header, arrays = read_arrays(path)
    for words in ({"name": "other", "parameters": {}}, {"name": "rbf", "parameters": {"sigma": 1}}, {}, {"name": []}):
        header["parameters"]["kernel"] = words
        write_arrays(path, json.dumps(header), arrays)
        with pytest.raises(ValueError, match=r"model\.h5 .* has the kernel .* not know"):
            fastsvm.load(path)


@pytest.mark.parametrize("kernel", [Cauchy(), TwiceLinear()])
def test_kernels_of_the_user_are_not_saved(kernel, tmp_path, overlapping):
    with pytest.raises(TypeError, match="code is not data"):
        fastsvm.save(SVC(kernel=kernel).fit(*overlapping), tmp_path / "model.h5")
    assert not list(tmp_path.iterdir())


# --- a user's own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (gaussian_processes.RBF(length_scale=1.0), RBF(0.5)),
        (gaussian_processes.DotProduct(sigma_0=0.0), Linear()),
        (lambda X, Z: laplacian_kernel(X, Z, gamma=0.5), Laplacian(0.5)),
    ],
    ids=["RBF", "DotProduct", "function"],
)
def test_an_object_that_is_called(kernel, name, overlapping):
    X, y = overlapping
    found, wanted = (clone(SVC(kernel=given, tol=1e-9)).fit(X, y) for given in (kernel, name))
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "function", "form"),
    [
        (Cosine(), cosines, np.asarray),
        (Cauchy(2.0), cauchies, sparse.csr_array),
        (Cauchy(2.0), cauchies, lambda X: np.abs(20 * X + 1).astype(np.uint8)),
    ],
    ids=["cosine", "cauchy of CSR", "cauchy of bytes"],
)
def test_a_class_of_the_user(kernel, function, form, overlapping):
    X, y = form(overlapping[0]), overlapping[1]
    plain = X.toarray() if sparse.issparse(X) else X.astype(float)
    # The rounding of a user's map is part of the violation, and is known by the bound of the class alone.
    found, wanted = SVC(kernel=kernel, tol=1e-8).fit(X, y), SVC(kernel=function, tol=1e-8).fit(plain, y)
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-9)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(plain), atol=1e-6)


def test_a_class_without_a_map_or_attributes(overlapping):
    class Mine(RBF):
        """Not registered."""

    with pytest.raises(ValueError, match=r"register.*Got Mine\(gamma=1.0\)"):
        SVC(kernel=Mine()).fit(*overlapping)

    class Other(NamedTuple):
        pairing = "euclid"

    kernel_value.register(Other)(cauchy)
    with pytest.raises(ValueError, match=r"'pairing' of the kernel Other\(\) must be one of 'dot', 'manhattan'"):
        SVC(kernel=Other()).fit(*overlapping)


def test_a_second_map_and_a_class_that_is_no_tuple_are_refused():
    with pytest.raises(ValueError, match="define the class anew"):
        kernel_value.register(Cauchy)(cosine)
    with pytest.raises(TypeError, match="NamedTuple"):
        kernel_value.register(TwiceLinear)


def test_classes_of_one_name_have_their_own_maps(overlapping):
    """As in a notebook, where a cell is run again; numba alone takes such classes for one, and for ours."""

    def defined(factor):
        kind = namedtuple("RBF", ["gamma"])
        kind.pairing, kind.translation_invariant, kind.rounding = "dot", False, Linear.rounding

        @kernel_value.register(kind)
        def scaled(kernel, dot, sq_x, sq_z):
            return dot * factor

        return kind(1.0)

    for factor in (1, 3):
        assert value(defined(factor), 2.0) == 2.0 * factor
    assert value(RBF(1.0), 2.0) == 1.0
    same(SVC(kernel=RBF(0.5)).fit(*overlapping), named("rbf").fit(*overlapping))
    wanted = SVC(kernel=gaussian_processes.RBF(1.0), tol=1e-9).fit(*overlapping)
    assert SVC(kernel="rbf", gamma=0.5, tol=1e-9).fit(*overlapping).objective_ == pytest.approx(wanted.objective_)


MODULE = """
from typing import NamedTuple
from fastsvm.kernels import kernel_value

class Mine(NamedTuple):
    scale: float = 1.0
    pairing = "dot"
    translation_invariant = False

    def rounding(self, eps, sq_norm):
        return eps * sq_norm

@kernel_value.register(Mine)
def mine(kernel, dot, sq_x, sq_z):
    return kernel.scale * (dot + {shift})
"""
USE = """
from fastsvm import probe
from fastsvm._compiled.code_cache import writeable_folder
print(probe.value(Mine(), 1.0), len(list(writeable_folder().rglob("*probe*"))))
"""
OURS = "from fastsvm.kernels import Linear as Mine\n" + USE


def test_code_for_a_class_of_the_user_is_never_stale(importing, package, tmp_path):
    """On disk it would also keep other processes, which cannot import the class, from the code of our kernels."""
    folder = tmp_path / "user"
    folder.mkdir()
    # The module is edited within its time stamp.
    variables = {"NUMBA_CACHE_DIR": tmp_path / "cache", "PYTHONPATH": package.parent, "PYTHONDONTWRITEBYTECODE": 1}
    for shift, wanted in (("10", "11.0 0"), ("20", "21.0 0")):
        (folder / "mine.py").write_text(MODULE.format(shift=shift))
        codes = MODULE.format(shift=shift), "from mine import Mine\n"
        processes = [importing.start(code + USE, folder, **variables) for code in codes]
        assert [importing.output(process) for process in processes] == [wanted, wanted]
    (folder / "mine.py").unlink()
    assert importing.run(OURS, folder, **variables) == "1.0 1"
