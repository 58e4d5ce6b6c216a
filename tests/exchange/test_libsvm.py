"""Kernel machines as LIBSVM's text: the decision values are those of LIBSVM, whoever wrote the text."""

import numpy as np
import pytest
from model_texts.evaluation import libsvm_decisions, sorted_pairs
from model_texts.written import KERNEL_VALUES, LIBSVM, ROWS
from scipy import sparse
from sklearn.preprocessing import StandardScaler

import fastsvm
from fastsvm import SVC, NystroemSVC, NystroemSVR
from fastsvm.exchange.libsvm import MACHINES
from fastsvm.exchange.text_lines import whole_labels

ROWS = np.array(ROWS)
KINDS = {name: kind.__name__ for name, kind in MACHINES.items()}
RTOL = 1e-12


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.libsvm"


def decisions(model, X):
    """Return decisions of pairs, positive for the first class, or of the one function of machines without classes."""
    if not hasattr(model, "classes_"):
        return getattr(model, "decision_function", model.predict)(X)[:, None]
    shape = model.decision_function_shape
    found = model.set_params(decision_function_shape="ovo").decision_function(X)
    model.set_params(decision_function_shape=shape)
    return -found[:, None] if found.ndim == 1 else found


def told(text, X):
    labels, found = libsvm_decisions(text, X)
    return found if labels is None else sorted_pairs(labels, found)


def kind_of(text):
    return KINDS[text.split()[1]]


@pytest.mark.parametrize("name", LIBSVM)
def test_the_oracle_computes_what_libsvm_computes(name):
    text, expected = LIBSVM[name]
    X = np.array(KERNEL_VALUES) if name == "precomputed" else ROWS
    np.testing.assert_allclose(libsvm_decisions(text, X)[1], expected, rtol=RTOL, atol=1e-14)


@pytest.mark.filterwarnings("ignore:.*parameters of probabilities")
@pytest.mark.parametrize("name", LIBSVM)
def test_models_of_libsvm_predict_as_in_libsvm_also_after_being_saved(name, path):
    text, _ = LIBSVM[name]
    path.write_text(text)
    model = fastsvm.load_libsvm(path, n_features=12 if name == "precomputed" else 4)
    assert type(model).__name__ == kind_of(text)
    X = np.array(KERNEL_VALUES) if name == "precomputed" else ROWS
    expected = told(text, X)
    np.testing.assert_allclose(decisions(model, X), expected, rtol=RTOL, atol=1e-13)
    if name != "precomputed":
        np.testing.assert_allclose(decisions(model, sparse.csr_matrix(X)), expected, rtol=1e-10, atol=1e-12)
    assert model.stop_reason_ == "imported" and not hasattr(model, "objective_") and not hasattr(model, "converged_")
    fastsvm.save(model, path)
    again = fastsvm.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    fastsvm.save_libsvm(again, path)
    np.testing.assert_allclose(told(path.read_text(), X), expected, rtol=RTOL, atol=1e-14)


def test_probabilities_are_left_out_and_said_to_be(path):
    path.write_text(LIBSVM["c_svc with probabilities"][0])
    with pytest.warns(UserWarning, match="parameters of probabilities, which are left out"):
        fastsvm.load_libsvm(path)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", fastsvm.kernels.RBF(0.3)], ids=str)
@pytest.mark.parametrize(("labels", "layout"), [((-5, 0, 7), np.asarray), ((1.0, -1.0), sparse.csr_matrix)])
def test_written_texts_have_the_decisions_of_the_model(kernel, labels, layout, three_classes, path):
    X, y = three_classes
    X, y = X[:60], np.array(labels)[y[:60] % len(labels)]
    model = SVC(kernel=kernel, C=5, coef0=0.5, gamma=0.2).fit(layout(X), y)
    fastsvm.save_libsvm(model, path)
    np.testing.assert_allclose(told(path.read_text(), X), decisions(model, X), rtol=1e-10, atol=1e-11)
    again = fastsvm.load_libsvm(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == np.int64


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_samples_of_any_type_are_written_exactly(dtype, three_classes, path):
    X, y = three_classes
    X = np.clip(X * 20 + 100, 0, 255).round().astype(dtype)
    model = SVC(gamma=1e-3, C=5).fit(X, y)
    fastsvm.save_libsvm(model, path)
    np.testing.assert_allclose(told(path.read_text(), X.astype(float)), decisions(model, X), rtol=1e-10, atol=1e-11)


def test_precomputed_kernels_name_the_samples_of_the_fit(three_classes, path):
    X, y = three_classes
    model = SVC(kernel="precomputed").fit(X @ X.T, y)
    fastsvm.save_libsvm(model, path)
    np.testing.assert_allclose(told(path.read_text(), X @ X.T), decisions(model, X @ X.T), rtol=1e-10, atol=1e-12)
    again = fastsvm.load_libsvm(path, n_features=len(X))
    np.testing.assert_array_equal(again.support_, model.support_)
    np.testing.assert_allclose(decisions(again, X @ X.T), decisions(model, X @ X.T), rtol=RTOL)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_the_linear_kernel_takes_the_scales_of_features_into_its_text(layout, three_classes, path):
    X, y = three_classes
    X = X * [1, 10, 1e-3] + [0, 5, 1e-3]
    model = SVC(kernel="linear", standardize=True).fit(layout(X), y)
    fastsvm.save_libsvm(model, path)
    np.testing.assert_allclose(told(path.read_text(), X), decisions(model, X), rtol=1e-9, atol=1e-9)


def test_what_libsvm_does_not_have_is_refused(three_classes, path):
    X, y = three_classes
    for model, labels, error, words in (
        (SVC(kernel="laplacian"), y, ValueError, "kernels linear, polynomial, rbf, sigmoid and precomputed"),
        (SVC(kernel="linear"), np.array(["a", "b", "c"])[y], ValueError, "whole numbers"),
        (SVC(kernel="linear"), y + 2**40, ValueError, "32 bits"),
    ):
        with pytest.raises(error, match=words):
            fastsvm.save_libsvm(model.fit(X, labels), path)
    with pytest.raises(ValueError, match="of standardised ones"):
        fastsvm.save_libsvm(SVC(standardize=True).fit(X, y), path)
    with pytest.raises(TypeError, match="no text for a StandardScaler"):
        fastsvm.save_libsvm(StandardScaler(), path)
    for model in (NystroemSVC(n_components=5), NystroemSVC(n_components=5, multi_class="ovo"), NystroemSVR()):
        with pytest.raises(TypeError, match=f"no text for a {type(model).__name__}"):
            fastsvm.save_libsvm(model.fit(X, y), path)
    with pytest.raises(ValueError, match="not fitted"):
        fastsvm.save_libsvm(SVC(), path)
    assert not path.exists()


def test_many_support_vectors_are_evaluated_in_float64(path):
    rng = np.random.default_rng(3)  # a native model of so many would have kernel values in float32
    lines = [f"{a!r} 1:{v!r} 2:{w!r}" for a, v, w in rng.normal(size=(4000, 3)).tolist()]
    head = (
        "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 4000\nrho 0\nlabel 1 0\nnr_sv 2000 2000\nSV\n"
    )
    path.write_text(head + "\n".join(lines))
    X = rng.normal(size=(20, 2))
    expected = libsvm_decisions(path.read_text(), X)[1][:, 0]
    np.testing.assert_allclose(fastsvm.load_libsvm(path).decision_function(X), expected, atol=1e-11)


def test_indices_from_0_and_features_beyond_the_support_vectors(path):
    head = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 0 1\nnr_sv 1 1\nSV\n"
    path.write_text(head + "-1 0:2 1:1\n1 1:3\n")
    np.testing.assert_allclose(fastsvm.load_libsvm(path).coef_, [[2, -2]])
    path.write_text(head + "-1 1:2\n1\n")
    assert fastsvm.load_libsvm(path).n_features_in_ == 1
    assert fastsvm.load_libsvm(path, n_features=3).coef_.toarray().tolist() == [[2, 0, 0]]
    path.write_text(head + "-1 1:2 5:1\n1\n")
    with pytest.raises(ValueError, match="feature 5; leave it out or raise it"):
        fastsvm.load_libsvm(path, n_features=4)


@pytest.mark.parametrize("text", ["-1 0:2 1:1\n1 1:3\n", "-1 2:1\n1 1:3\n"])
def test_the_first_index_is_kept_in_texts(text, path, tmp_path):
    head = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 0 1\nnr_sv 1 1\nSV\n"
    path.write_text(head + text)
    model = fastsvm.load_libsvm(path, first_index=0)
    fastsvm.save(model, tmp_path / "saved")
    fastsvm.save_libsvm(fastsvm.load(tmp_path / "saved"), path)
    assert " 0:" in path.read_text()  # so that no reader takes the second feature for the first
    X = np.eye(model.n_features_in_)
    again = fastsvm.load_libsvm(path)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    with pytest.raises(ValueError, match="first_index=1, but a support vector has the index 0"):
        fastsvm.load_libsvm(path, first_index=1)
    with pytest.raises(ValueError, match="first_index must be"):
        fastsvm.load_libsvm(path, first_index=2)


@pytest.mark.parametrize("labels", [[0.5, 1.5], [0.0, np.nan], [0, 2**31], [-(2.0**40), 1.0], ["a", "b"]])
def test_labels_that_the_text_cannot_hold_are_refused(labels):
    with pytest.raises(ValueError, match="LIBSVM's text has whole numbers of 32 bits as labels"):
        whole_labels(np.array(labels), "LIBSVM")


@pytest.mark.parametrize(
    "labels", [[False, True], [-1.0, 1.0], np.array([0, 200], np.uint8), [-(2**31) + 1, 2**31 - 1]]
)
def test_labels_of_any_type_that_are_whole_become_integers(labels):
    written = whole_labels(np.array(labels), "LIBSVM")
    assert written.dtype == np.int64
    np.testing.assert_array_equal(written, labels)
