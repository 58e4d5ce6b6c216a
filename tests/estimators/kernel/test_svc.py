import warnings
from concurrent.futures import ThreadPoolExecutor

import h5py
import naive
import numpy as np
import pandas as pd
import pytest
import threadpoolctl
from csr_group import write_csr
from scipy import sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from fastsvm import SVC, open_hdf5
from fastsvm.estimators.kernel import kernel_parameter
from fastsvm.sources import ScaledSource, as_source

KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.1, "coef0": 1.0, "degree": 3},
    "rbf": {"gamma": 0.05},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
}


def kernel_matrix(kernel, X, Z=None):
    return pairwise_kernels(X, Z, metric=kernel, **KERNELS[kernel])


def numbers(y):
    return np.unique(y, return_inverse=True)[1]


# The sigmoid is indefinite; where it is so strongly, LIBSVM may end in another stationary point.
OTHER_STATIONARY_POINT = {("breast_cancer", "sigmoid", 100), ("digits", "sigmoid", 100)}

# --- certificates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 1, 100])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["iris", "breast_cancer", "digits"])
def test_objective_and_predictions_are_those_of_scikit_learn(name, kernel, C, data_sets):
    X, y = data_sets[name]
    wanted = svm.SVC(kernel=kernel, C=C, tol=1e-6, cache_size=500, **KERNELS[kernel]).fit(X, y)
    found = SVC(kernel=kernel, C=C, tol=1e-6, **KERNELS[kernel]).fit(X, y)
    K, labels, upper = kernel_matrix(kernel, X), numbers(y), np.full(len(y), float(C))
    objective, violation, gap = naive.certificate(found, K, labels, upper)
    reached = naive.certificate(wanted, K, labels, upper)[0]

    assert found.converged_
    assert found.objective_ == pytest.approx(objective, rel=1e-9)
    assert violation <= 1e-6 + 1e-9 * max(1, C)
    assert found.kkt_violation_ == pytest.approx(violation, abs=1e-9 * max(1, C))
    assert found.duality_gap_ == pytest.approx(gap, abs=1e-7 * max(1, objective))
    if (name, kernel, C) in OTHER_STATIONARY_POINT:
        assert np.linalg.eigvalsh(K)[0] < -0.5
        assert (found.predict(X) == wanted.predict(X)).mean() >= 0.95
        return
    assert objective == pytest.approx(reached, rel=1e-5)
    assert (found.predict(X) == wanted.predict(X)).mean() >= 0.999


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_decision_values_at_a_tight_tolerance(kernel, data_sets):
    X, y = data_sets["iris"]
    wanted = svm.SVC(kernel=kernel, tol=1e-10, decision_function_shape="ovo", **KERNELS[kernel]).fit(X, y)
    found = SVC(kernel=kernel, tol=1e-10, decision_function_shape="ovo", **KERNELS[kernel]).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_the_model_is_that_of_a_general_solver(kernel, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(36, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=36) > 0, "yes", "no")
    signs = np.where(y == "yes", 1.0, -1.0)
    parameters = {"gamma": 1.0, "coef0": 0.0, "degree": 3} | KERNELS[kernel]
    K = naive.kernel_matrix(kernel, X, X, **parameters)
    alpha, offset, objective = naive.solve_dual(K, signs, np.full(36, 2.0))
    found = SVC(kernel=kernel, C=2.0, tol=1e-10, **parameters).fit(X, y)
    assert found.objective_ == pytest.approx(objective, rel=1e-6)
    Z = rng.normal(size=(20, 2))
    wanted = naive.kernel_matrix(kernel, Z, X, **parameters) @ (alpha * signs) + offset
    np.testing.assert_allclose(found.decision_function(Z), wanted, atol=1e-4)
    clear = np.abs(wanted) > 1e-3
    np.testing.assert_array_equal(found.predict(Z)[clear], np.where(wanted > 0, "yes", "no")[clear])


@pytest.fixture(scope="module")
def many():
    """Return more rows than a working set holds, sorted by label."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [1500, 1900])
    X = rng.normal(size=(3400, 6)) + 0.9 * y[:, None]
    return X, y


@pytest.fixture(scope="module")
def many_fitted(many):
    return svm.SVC(gamma=0.1, tol=1e-6, cache_size=500).fit(*many)


@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled"])
def test_more_rows_than_a_working_set(order, many, many_fitted):
    X, y = many
    place = {"sorted": np.arange(3400), "reversed": np.arange(3400)[::-1]}.get(order)
    place = np.random.default_rng(0).permutation(3400) if place is None else place
    found = SVC(gamma=0.1, tol=1e-6).fit(X[place], y[place])
    assert found.converged_
    np.testing.assert_allclose(found.decision_function(X), many_fitted.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("memory", ["2MB", "4MB", "10MB"])
def test_little_memory(memory, many, many_fitted):
    found = SVC(gamma=0.1, tol=1e-6, memory=memory).fit(*many)
    assert found.converged_
    np.testing.assert_allclose(found.decision_function(many[0]), many_fitted.decision_function(many[0]), atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_meets_the_tolerance(kernel, many, monkeypatch):
    monkeypatch.setattr(kernel_parameter, "_SMALL", 0)
    X, y = many
    found = SVC(kernel=kernel, tol=1e-3, **KERNELS[kernel]).fit(X, y)
    wanted = svm.SVC(kernel=kernel, tol=1e-5, cache_size=500, **KERNELS[kernel]).fit(X, y)
    K, upper = kernel_matrix(kernel, X), np.ones(len(y))
    objective, violation, _ = naive.certificate(found, K, y, upper)
    assert found.converged_
    assert violation <= 1.1e-3
    assert found.kkt_violation_ == pytest.approx(violation, abs=2e-4)
    assert objective == pytest.approx(naive.certificate(wanted, K, y, upper)[0], rel=1e-5)
    assert (found.predict(X) == wanted.predict(X)).mean() >= 0.999


def test_hard_margin():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 9])
    y = np.repeat([0, 1], 60)
    found = SVC(kernel="linear", C=1e8, tol=1e-6).fit(X, y)
    wanted = svm.SVC(kernel="linear", C=1e8, tol=1e-8).fit(X, y)
    assert found.converged_
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-4)
    assert (np.where(y, 1, -1) * found.decision_function(X)).min() == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(found.support_, wanted.support_)


def test_the_intercept_when_no_multiplier_is_free():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    found = SVC(kernel="linear", C=1e-3, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(np.abs(found.dual_coef_), 1e-3)
    assert found.intercept_[0] == pytest.approx(svm.SVC(kernel="linear", C=1e-3).fit(X, y).intercept_[0], abs=1e-9)


# --- attributes ------------------------------------------------------------------------------------------


@pytest.fixture(params=["binary", "multiclass"])
def both(request, overlapping, three_classes):
    """Return X, y and both fitted linear models."""
    X, y = overlapping if request.param == "binary" else three_classes
    y = np.array(["ant", "bee", "cow"])[y]
    return X, y, SVC(kernel="linear", tol=1e-9).fit(X, y), svm.SVC(kernel="linear", tol=1e-9).fit(X, y)


@pytest.mark.parametrize(
    "name", ["classes_", "support_", "n_support_", "support_vectors_", "shape_fit_", "fit_status_"]
)
def test_attributes_are_those_of_scikit_learn(name, both):
    _, _, found, wanted = both
    np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("name", ["dual_coef_", "intercept_", "coef_", "class_weight_"])
def test_numbers_are_those_of_scikit_learn(name, both):
    _, _, found, wanted = both
    assert getattr(found, name).shape == getattr(wanted, name).shape
    assert getattr(found, name).dtype == getattr(wanted, name).dtype
    np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-5)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_decision_functions_are_those_of_scikit_learn(shape, both):
    X, _, found, wanted = both
    a, b = (model.set_params(decision_function_shape=shape).decision_function(X) for model in (found, wanted))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("break_ties", [False, True])
def test_predictions_are_those_of_scikit_learn(break_ties, both):
    X, y, found, wanted = both
    a, b = (model.set_params(break_ties=break_ties) for model in (found, wanted))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert a.score(X, y) == b.score(X, y)


def test_the_intercept_is_a_copy_for_each_model(overlapping):
    X, y = overlapping
    first = SVC().fit(X, y)
    before = first.dual_coef_.copy()
    SVC(C=5.0).fit(X, y)
    np.testing.assert_array_equal(first.dual_coef_, before)


def test_coef_is_of_the_linear_kernel_only(overlapping):
    model = SVC().fit(*overlapping)
    with pytest.raises(AttributeError, match="linear"):
        _ = model.coef_
    assert not hasattr(model, "coef_")


def test_coef_of_sparse_rows(three_classes):
    X, y = three_classes
    wanted = SVC(kernel="linear", tol=1e-9).fit(X, y).coef_
    np.testing.assert_allclose(SVC(kernel="linear", tol=1e-9).fit(sparse.csr_array(X), y).coef_, wanted, atol=1e-7)


def test_parameters_have_scikit_learns_names_and_defaults():
    ours, theirs = SVC().get_params(), svm.SVC().get_params()
    assert set(theirs) - set(ours) <= {"probability"}
    different = {name for name in set(ours) & set(theirs) if ours[name] != theirs[name]}
    assert different <= {"cache_size"}


def test_frames_give_the_names_of_features(overlapping):
    X, y = overlapping
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = SVC().fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(model.predict(frame), SVC().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


def test_a_second_fit_forgets_the_first(overlapping, three_classes):
    model = SVC().fit(pd.DataFrame(three_classes[0], columns=list("abc")), three_classes[1])
    model.fit(*overlapping)
    again = SVC().fit(*overlapping)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.decision_function(overlapping[0]), again.decision_function(overlapping[0]))


def test_the_history_has_one_entry_an_outer_iteration(many):
    model = SVC(gamma=0.1).fit(*many)
    table = pd.DataFrame(model.history_)
    assert len(table) > 3
    assert table["time"].is_monotonic_increasing
    assert (np.diff(table["objective"]) >= -1e-8 * model.objective_).all()  # rounding of float32 may take back
    assert table["gap"].iloc[-1] <= model.tol
    assert table["iteration"].iloc[-1] == model.n_iter_[0]
    assert table["objective"].iloc[-1] == pytest.approx(model.objective_, rel=1e-6)
    assert model.passes_ > 0


# --- weights ---------------------------------------------------------------------------------------------


def same(a, b, X, tolerance=1e-6):
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-8)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=tolerance)


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}, {"class_weight": {1: 3.0}}], ids=str)
@pytest.mark.parametrize("data", ["overlapping", "three_classes"])
def test_weights_are_repeated_rows(data, parameters, request):
    X, y = request.getfixturevalue(data)
    weight = np.random.default_rng(5).integers(0, 4, len(y))
    model = SVC(tol=1e-9, **parameters)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    same(weighted, repeated, X)


def test_rows_of_weight_zero_are_left_out(three_classes):
    X, y = three_classes
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    same(SVC(tol=1e-9).fit(X, y, weight), SVC(tol=1e-9).fit(X[weight > 0], y[weight > 0]), X)


@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}], ids=str)
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_class_of_weight_zero_is_left_out(lost, parameters, three_classes):
    X, y = three_classes
    kept = y != lost
    model = SVC(tol=1e-9, **parameters)
    same(clone(model).fit(X, y, kept.astype(float)), clone(model).fit(X[kept], y[kept]), X)


def test_support_counts_all_rows_when_some_have_no_weight(overlapping):
    X, y = overlapping
    weight = np.ones(len(y))
    weight[:40] = 0
    model = SVC().fit(X, y, weight)
    assert model.support_.min() >= 40
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("class_weight", [{0: 2.0, 1: 0.5, 2: 3.0}, {2: 10.0}, "balanced"], ids=str)
def test_class_weights_are_those_of_scikit_learn(class_weight, three_classes):
    X, y = three_classes
    X, y = X[20:], y[20:]
    wanted = svm.SVC(class_weight=class_weight, tol=1e-8).fit(X, y)
    found = SVC(class_weight=class_weight, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(found.class_weight_, wanted.class_weight_)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-5)


def test_class_weights_of_words(three_classes):
    X, y = three_classes
    words = np.array(["ant", "bee", "cow"])[y]
    found = SVC(class_weight={"cow": 4.0}, tol=1e-9).fit(X, words)
    same_numbers = SVC(class_weight={2: 4.0}, tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(found.decision_function(X), same_numbers.decision_function(X))


def test_sample_weights_are_those_of_scikit_learn(three_classes):
    X, y = three_classes
    weight = np.random.default_rng(6).uniform(0.1, 3, len(y))
    wanted = svm.SVC(gamma=0.3, tol=1e-8).fit(X, y, weight)
    found = SVC(gamma=0.3, tol=1e-8).fit(X, y, weight)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-5)
    assert found.score(X, y, weight) == wanted.score(X, y, weight)


# --- early ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [({"max_iter": 5}, "max_iter"), ({"max_time": 1e-9}, "max_time")],
    ids=["iter", "time"],
)
def test_limits_end_a_fit_with_a_warning(parameters, reason, many):
    X, y = many[0][::-1], many[1][::-1]
    with pytest.warns(ConvergenceWarning, match=reason) as caught:
        model = SVC(gamma=0.1, **parameters).fit(X, y)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.fit_status_ == 1
    assert model.stop_reason_ == reason
    assert model.kkt_violation_ > model.tol
    assert model.duality_gap_ > 0
    assert model.predict(X).shape == y.shape


def test_no_steps_at_all(overlapping):
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_iter=0).fit(*overlapping)
    assert len(model.support_) == 0
    assert model.predict(overlapping[0]).shape == (150,)


def test_each_problem_may_take_as_many_steps(three_classes):
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_iter=3).fit(*three_classes)
    np.testing.assert_array_equal(model.n_iter_, 3)


@pytest.mark.parametrize("data", ["overlapping", "three_classes"])
def test_warm_start_resumes(data, request):
    X, y = request.getfixturevalue(data)
    wanted = SVC(C=10.0, tol=1e-8).fit(X, y)
    model = SVC(C=10.0, tol=1e-8, warm_start=True, max_iter=30)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    before = model.objective_
    model.set_params(max_iter=-1).fit(X, y)
    assert model.history_["objective"][0] >= before / len(model.n_iter_) * 0.1
    assert model.objective_ > before
    same(model, wanted, X)


def test_warm_start_at_the_end_takes_no_steps(overlapping):
    model = SVC(warm_start=True).fit(*overlapping)
    model.fit(*overlapping)
    assert model.n_iter_[0] <= 2


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_warm_start_with_another_penalty(C, overlapping):
    X, y = overlapping
    model = SVC(warm_start=True, tol=1e-9).fit(X, y)
    same(model.set_params(C=C).fit(X, y), SVC(C=C, tol=1e-9).fit(X, y), X)


def test_warm_start_with_other_data(overlapping, three_classes):
    model = SVC(warm_start=True, tol=1e-9).fit(*overlapping)
    same(model.fit(*three_classes), SVC(tol=1e-9).fit(*three_classes), three_classes[0])


def test_warm_start_with_other_labels(overlapping):
    X, y = overlapping
    model = SVC(warm_start=True, tol=1e-9).fit(X, y)
    same(model.fit(X, 1 - y), SVC(tol=1e-9).fit(X, 1 - y), X)


# --- the same model, wherever rows are -------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return whole numbers, labels, and a file that holds them densely and sparsely."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 9, (180, 7)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = 0
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=180) > 2).astype(int) + (X[:, 3] > 6)
    path = tmp_path_factory.mktemp("svc") / "data.h5"
    S = sparse.csr_matrix(X)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(16, 7), compression="gzip")
        file["y"] = y
        group = file.create_group("S")
        write_csr(group, S)
    with open_hdf5(path) as data:
        yield X, y, data


FORMS = {
    "list": lambda X, data: X.tolist(),
    "float64": lambda X, data: X.astype(float),
    "float32": lambda X, data: X,
    "float16": lambda X, data: X.astype(np.float16),
    "uint8": lambda X, data: X.astype(np.uint8),
    "int64": lambda X, data: X.astype(np.int64),
    "Fortran": lambda X, data: np.asfortranarray(X),
    "not contiguous": lambda X, data: np.repeat(X, 2, axis=1)[:, ::2],
    "csr_matrix": lambda X, data: sparse.csr_matrix(X),
    "csr_array": lambda X, data: sparse.csr_array(X.astype(float)),
    "csc_matrix": lambda X, data: sparse.csc_matrix(X),
    "HDF5Data": lambda X, data: data,
    "Dataset": lambda X, data: data._file["X"],
    "Group": lambda X, data: data._file["S"],
    "Source": lambda X, data: data.X,
    "subset": lambda X, data: data.X.take(np.arange(180)),
    "scaled": lambda X, data: ScaledSource(as_source(2 * X + 1), np.ones(7), 0.5),
    "scaled file": lambda X, data: ScaledSource(data.X, None, 1.0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_every_form_of_rows_gives_the_same_model(kernel, form, stored):
    X, y, data = stored
    parameters = {"kernel": kernel, "gamma": 0.02, "coef0": 1.0, "tol": 1e-9}
    wanted = SVC(**parameters).fit(X.astype(float), y)
    found = SVC(**parameters).fit(FORMS[form](X, data), y)
    same(found, wanted, X)
    np.testing.assert_array_equal(found.support_, wanted.support_)


TRAINED = ["float64", "uint8", "csr_matrix", "HDF5Data", "Group"]


@pytest.fixture(scope="module")
def trained(stored):
    X, y, data = stored
    return {form: SVC(gamma=0.02, tol=1e-6).fit(FORMS[form](X, data), y) for form in TRAINED}


@pytest.mark.parametrize("other", FORMS)
@pytest.mark.parametrize("form", TRAINED)
def test_a_model_predicts_on_rows_of_any_form(form, other, stored, trained):
    X, _, data = stored
    wanted = trained[form].decision_function(X)
    np.testing.assert_allclose(trained[form].decision_function(FORMS[other](X, data)), wanted, atol=1e-9)


def test_labels_and_weights_come_with_the_data(tmp_path, overlapping):
    X, y = overlapping
    weight = np.random.default_rng(0).uniform(0, 2, len(y))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"], file["sample_weight"] = X, y, weight
    with open_hdf5(tmp_path / "data.h5") as data:
        found = SVC(tol=1e-9).fit(data)
        same(found, SVC(tol=1e-9).fit(X, y, weight), X)
        assert found.score(data) == found.score(X, y)
        same(SVC(tol=1e-9).fit(data, y, np.ones(len(y))), SVC(tol=1e-9).fit(X, y), X)


def test_datasets_as_labels(stored):
    X, y, data = stored
    same(SVC(tol=1e-9).fit(data._file["X"], data._file["y"]), SVC(tol=1e-9).fit(X, y), X)


def test_swapped_labels_flip_the_signs(overlapping):
    X, y = overlapping
    a, b = SVC(tol=1e-9).fit(X, y), SVC(tol=1e-9).fit(X, 1 - y)
    np.testing.assert_allclose(a.decision_function(X), -b.decision_function(X), atol=1e-7)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-10)


def test_the_order_of_rows_does_not_matter(three_classes):
    X, y = three_classes
    order = np.random.default_rng(1).permutation(len(y))
    same(SVC(tol=1e-9).fit(X[order], y[order]), SVC(tol=1e-9).fit(X, y), X)


def test_streaming_gives_the_model_of_rows_in_memory(tmp_path, many, many_fitted):
    X, y = many
    with h5py.File(tmp_path / "wide.h5", "w") as file:  # features of zeros, so that rows outgrow the memory
        file.create_dataset("X", data=np.hstack([X, np.zeros((3400, 994))]), chunks=(64, 1000))
        file["y"] = y
    with open_hdf5(tmp_path / "wide.h5") as data:
        model = SVC(gamma=0.1, tol=1e-6, memory="16MB").fit(data)
        assert model.passes_ > 2
        assert model.history_["bytes_read"][-1] > 2 * data.X.nbytes
        found = model.decision_function(data)
    assert model.converged_
    np.testing.assert_allclose(found, many_fitted.decision_function(X), atol=1e-5)


THREADS = """
import numpy as np
from fastsvm import SVC
rng = np.random.default_rng(0)
X = rng.normal(size=(1300, 8)).astype(np.float32)
y = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=1300) > 1).astype(int)
for memory in ("1GB", "6MB"):
    model = SVC(memory=memory).fit(X, y)
    values = model.dual_coef_, model.intercept_, model.decision_function(X)
    print(*(value.tobytes().hex() for value in values))
"""


def test_the_number_of_threads_does_not_change_a_bit(python):
    one, two = python.start(THREADS, NUMBA_NUM_THREADS=1), python.start(THREADS, NUMBA_NUM_THREADS=2)
    one, two = python.output(one).splitlines(), python.output(two).splitlines()
    assert one[0] == two[0], "with ample memory"
    assert one[1] == two[1], "with little memory"


def test_a_fit_leaves_no_warnings_and_no_numpy_state(overlapping):
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="raise"):
        warnings.simplefilter("always")
        SVC().fit(*overlapping).predict(overlapping[0])
    assert not caught


# --- where others go wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e6, 1e12])
@pytest.mark.parametrize("row", [0, 399])
def test_one_far_row_does_not_blur_the_others(far, row):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.standard_normal((400, 3)) + y[:, None]
    X[row, 0] = far
    wanted = svm.SVC(gamma=0.5, tol=1e-6).fit(X, y)
    found = SVC(gamma=0.5, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-4)


def test_a_tie_of_two_classes_goes_to_the_second():
    model = SVC(kernel="linear").fit([[-1.0], [1.0]], [0, 1])
    assert model.predict([[0.0]]) == svm.SVC(kernel="linear").fit([[-1.0], [1.0]], [0, 1]).predict([[0.0]]) == 1


def test_repeated_sparse_entries_of_small_integers_are_summed_whole():
    data, place = np.array([200, 100, 1], np.uint8), np.array([0, 0, 1])
    X = sparse.csr_matrix((data, place, [0, 2, 3]), shape=(2, 2))
    np.testing.assert_array_equal(as_source(X).rows(np.arange(2)).dense(np.float64), [[300, 0], [0, 1]])


def test_damaged_sparse_rows_are_refused_at_prediction():
    X = sparse.random(50, 5, 0.5, format="csr", random_state=0)
    model = SVC(kernel="linear").fit(X, np.arange(50) % 2)
    Z = X[:2].copy()
    Z.indices[0] = 10**8
    with pytest.raises(ValueError, match=r"damaged|index|indices"):
        model.decision_function(Z)


def test_overlapping_fits_give_blas_its_threads_back(overlapping):
    before = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
    X, y = overlapping
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda C: SVC(C=C).fit(X, y), np.linspace(0.1, 10, 24)))
    assert [library["num_threads"] for library in threadpoolctl.threadpool_info()] == before


def test_time_is_up_between_problems_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), np.arange(600) % 60
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = SVC(max_time=1e-6).fit(X, y)
    assert (model.n_iter_ > 0).sum() == 1
    assert model.predict(X).shape == (600,)


def test_a_path_or_an_open_file_is_told_how_to_pass(tmp_path):
    with pytest.raises(TypeError, match="open_hdf5"):
        SVC().fit("data.h5", [0, 1])
    with h5py.File(tmp_path / "data.h5", "w") as file, pytest.raises(ValueError, match="open_hdf5"):
        SVC().fit(file, [0, 1])
