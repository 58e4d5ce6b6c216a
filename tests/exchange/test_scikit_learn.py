"""Models as estimators of scikit-learn predict the same, also where fastsvm cannot be imported, and the other way."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.gaussian_process.kernels import RBF as GaussianProcessKernel
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import fastsvm
from fastsvm import (
    SVC,
    SVR,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    NystroemSVC,
    NystroemSVR,
    OneClassSVM,
    SGDClassifier,
    SGDRegressor,
)
from fastsvm.kernels import Polynomial

FAST = {"max_iter": 5, "tol": None, "random_state": 0}
KERNELS = ["linear", "poly", "rbf", "sigmoid", "laplacian", "exponential", Polynomial(2, 1.0, 0.3)]
LINEAR = [
    LinearSVC(),
    LinearSVC(loss="hinge", standardize=True, fit_intercept=False),
    LinearSVC(multi_class="weston_watkins"),
    LinearSVR(standardize=True),
    LinearOneClassSVM(nu=0.2),
    LinearOneClassSVM(nu=0.2, standardize=True),
    LogisticRegression("l1", C=0.1),
    SGDClassifier(learning_rate="optimal", average=False, **FAST),
    SGDClassifier("log_loss", **FAST),
    SGDClassifier("modified_huber", **FAST),
    SGDClassifier("softmax", **FAST),
    SGDClassifier("crammer_singer", **FAST),
    SGDRegressor("huber", **FAST),
]


def scores(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def check_same(ours, theirs, X, rtol=1e-9):
    np.testing.assert_allclose(scores(theirs, X), scores(ours, X), rtol=rtol, atol=1e-10)
    if hasattr(ours, "classes_"):
        np.testing.assert_array_equal(theirs.predict(X), ours.predict(X))
    if hasattr(ours, "predict_proba") and hasattr(theirs, "predict_proba"):
        np.testing.assert_allclose(theirs.predict_proba(X), ours.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(
    ("standardize", "layout", "n_classes"),
    [(False, np.asarray, 2), (False, sparse.csr_matrix, 3), (True, np.asarray, 3), (True, sparse.csr_matrix, 2)],
)
def test_kernel_machines_go_and_come_back(kernel, standardize, layout, n_classes, three_classes):
    X, y = three_classes
    X, names = X[:70], np.array(["a", "b", "c"])[y[:70] % n_classes]
    ours = SVC(kernel=kernel, C=3, coef0=0.5, standardize=standardize, decision_function_shape="ovo")
    ours.fit(layout(X), names)
    theirs = fastsvm.to_sklearn(ours)
    rows = X if kernel == "exponential" else layout(X)  # of which scikit-learn has a function for dense samples only
    check_same(ours, theirs, rows)
    back = fastsvm.from_sklearn(theirs)
    check_same(ours, back, X)
    assert back.standardize == standardize and back.stop_reason_ == "imported"
    if isinstance(kernel, str):
        assert back.kernel == kernel and back.C == 3


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("model", [
    NystroemSVC(n_components=20, random_state=0, standardize=True),
    NystroemSVC(n_components=20, random_state=0, kernel=Polynomial(2, 1.0, 0.3), multi_class="crammer_singer"),
    NystroemSVC(n_components=20, random_state=0, multi_class="ovo", fit_intercept=False),
    NystroemSVR(n_components=20, random_state=0, kernel="laplacian"),
], ids=repr)  # fmt: skip
def test_machines_of_landmarks_become_pipelines(model, layout, three_classes):
    X, y = three_classes
    check_same(model.fit(layout(X[:70]), y[:70]), fastsvm.to_sklearn(model), layout(X), rtol=1e-7)
    with pytest.raises(ValueError, match="cannot evaluate the kernel Exponential"):
        fastsvm.to_sklearn(NystroemSVR(kernel="exponential").fit(X[:70], y[:70]))


@pytest.mark.parametrize("model", [SVR(), NuSVR(standardize=True), OneClassSVM(), NuSVC(nu=0.3)], ids=repr)
def test_other_kernel_machines_go_and_come_back(model, three_classes):
    X, y = three_classes
    model.fit(X, y)
    theirs = fastsvm.to_sklearn(model)
    check_same(model, theirs, X)
    check_same(model, fastsvm.from_sklearn(theirs), X)


@pytest.mark.parametrize("model", LINEAR, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_machines_go_and_come_back(model, n_classes, three_classes):
    X, y = three_classes
    model.fit(X, y % n_classes)
    theirs = fastsvm.to_sklearn(model)
    assert theirs.get_params().get("verbose", 0) == 0
    check_same(model, theirs, X)
    check_same(model, theirs, sparse.csr_matrix(X))
    check_same(model, fastsvm.from_sklearn(theirs), X)


def test_kernel_values_and_functions(three_classes):
    X, y = three_classes
    ours = SVC(kernel="precomputed").fit(X @ X.T, y)
    check_same(ours, fastsvm.to_sklearn(ours), X @ X.T)
    check_same(ours, fastsvm.from_sklearn(fastsvm.to_sklearn(ours)), X @ X.T)
    for kernel in (GaussianProcessKernel(0.7), np.inner):
        ours = SVC(kernel=kernel).fit(X, y)
        check_same(ours, fastsvm.to_sklearn(ours), X)
        check_same(ours, fastsvm.from_sklearn(fastsvm.to_sklearn(ours)), X)
    words = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]
    ours = SVC(kernel=lambda a, b: np.minimum.outer([len(x) for x in a], [len(x) for x in b]).astype(float))
    ours.fit(words, [0, 0, 0, 1, 1, 1])
    theirs = fastsvm.to_sklearn(ours)
    np.testing.assert_allclose(theirs.decision_function(words), ours.decision_function(words))
    np.testing.assert_allclose(fastsvm.from_sklearn(theirs).decision_function(words), ours.decision_function(words))


THEIRS = [
    svm.SVC(C=2),
    svm.SVC(kernel="poly", coef0=1, decision_function_shape="ovo"),
    svm.SVC(kernel=np.inner),
    make_pipeline(StandardScaler(), svm.SVC()),
    make_pipeline(StandardScaler(with_std=False), svm.SVC()),
    make_pipeline(StandardScaler(with_mean=False), svm.LinearSVC()),
    make_pipeline(StandardScaler(), "passthrough", svm.LinearSVR(epsilon=0.1)),
    svm.LinearSVC(fit_intercept=False, loss="hinge", C=0.01),
    linear_model.SGDClassifier("log_loss", random_state=0),
    linear_model.SGDRegressor(random_state=0),
    linear_model.SGDOneClassSVM(nu=0.2, random_state=0),
    make_pipeline(StandardScaler(), linear_model.SGDOneClassSVM(random_state=0)),
    linear_model.LogisticRegression(),
    linear_model.LogisticRegression(solver="liblinear", C=0.3),
]


@pytest.mark.parametrize("model", THEIRS, ids=lambda model: re.sub("<.*?>", "a function", repr(model)))
def test_models_of_scikit_learn_predict_the_same_here(model, three_classes, tmp_path):
    X, y = three_classes
    if getattr(model, "solver", None) == "liblinear":  # which newer versions allow for two classes only
        y = y % 2
    model.fit(X + 1, y)
    ours = fastsvm.from_sklearn(model)
    check_same(ours, model, X + 1)
    if not callable(getattr(ours, "kernel", "")):
        fastsvm.save(ours, tmp_path / "a.model")
        check_same(fastsvm.load(tmp_path / "a.model"), model, X + 1)


def test_names_of_features_are_kept(three_classes):
    import pandas as pd

    X, y = three_classes
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    for model in (SVC(), SVC(standardize=True), LinearSVC()):
        theirs = fastsvm.to_sklearn(model.fit(X, y))
        assert list(theirs.feature_names_in_) == ["a", "b", "c"]
        assert list(fastsvm.from_sklearn(theirs).feature_names_in_) == ["a", "b", "c"]
        check_same(model, theirs, X)


def test_pickles_predict_where_fastsvm_cannot_be_imported(three_classes, tmp_path):
    X, y = three_classes
    models = [SVC(kernel=kernel, standardize=s).fit(X, y) for kernel in ("rbf", "laplacian") for s in (False, True)]
    models += [model.fit(X, y) for model in LINEAR]
    content = [(fastsvm.to_sklearn(model), X, scores(model, X)) for model in models]
    (tmp_path / "models").write_bytes(pickle.dumps(content))
    code = (
        "import pickle, sys\n"
        "sys.modules['fastsvm'] = sys.modules['numba'] = None\n"
        "import numpy as np\n"
        "for model, X, expected in pickle.load(open('models', 'rb')):\n"
        "    found = getattr(model, 'decision_function', model.predict)(X)\n"
        "    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)\n"
        "print('all')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "all", done.stderr


def test_what_cannot_be_converted_is_refused(three_classes):
    X, y = three_classes
    with pytest.raises(TypeError, match=r"NystroemSVR, CalibratedClassifier\. Found sklearn"):
        fastsvm.to_sklearn(Ridge().fit(X, y))
    with pytest.raises(TypeError, match="Found Ridge"):
        fastsvm.from_sklearn(Ridge().fit(X, y))
    with pytest.raises(TypeError, match="must consist of StandardScaler"):
        fastsvm.from_sklearn(make_pipeline(MinMaxScaler(), svm.SVC()).fit(X, y))
    with pytest.raises(TypeError, match="best_estimator_"):
        fastsvm.to_sklearn(fastsvm.SVCSearch(SVC(), {"C": [1.0]}))
    for model, convert in ((SVC(), fastsvm.to_sklearn), (svm.SVC(), fastsvm.from_sklearn)):
        with pytest.raises(ValueError, match="not fitted"):
            convert(model)


# --- what others make of them ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [SVC(), SVC(kernel="poly", standardize=True), *LINEAR[:4], *LINEAR[7:10]], ids=repr)
def test_onnx(model, three_classes):
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    X, y = three_classes
    X = X.astype(np.float32)
    model.fit(X, y)
    made = skl2onnx.to_onnx(fastsvm.to_sklearn(model), X[:1])
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: X})[0].ravel()
    np.testing.assert_allclose(found, model.predict(X), atol=1e-5)


@pytest.mark.parametrize("model", [SVC(kernel="laplacian"), SVC(standardize=True), LinearSVC()], ids=repr)
def test_skops(model, three_classes):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    X, y = three_classes
    content = skops.dumps(fastsvm.to_sklearn(model.fit(X, y)))
    assert not [name for name in skops.get_untrusted_types(data=content) if name.startswith("fastsvm")]
    again = skops.loads(content, trusted=skops.get_untrusted_types(data=content))
    check_same(model, again, X)
