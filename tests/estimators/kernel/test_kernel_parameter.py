"""The type of kernel values is precise enough."""

import naive
import numpy as np
import pytest
from kernel_machines import KERNELS, kernel_matrix
from scipy import sparse
from sklearn import svm
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from fastsvm import SVC, SVR, NuSVR, NystroemFeatures
from fastsvm.tuning import changed, tuned


@pytest.fixture
def in_float32():
    """Kernel values are float32 though rows are few, and some hundred rows are more than are solved at once."""
    with tuned(changed({"kernel": {"few_rows": 0, "block_rows": 400, "working_set": 200}})):
        yield


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_meets_the_tolerance(kernel, many):
    X, y = (part[::4] for part in many)
    found = SVC(kernel=kernel, tol=1e-3, **KERNELS[kernel]).fit(X, y)
    wanted = svm.SVC(kernel=kernel, tol=1e-5, cache_size=500, **KERNELS[kernel]).fit(X, y)
    K, upper = kernel_matrix(kernel, X), np.ones(len(y))
    objective, violation, _ = naive.certificate(found, K, y, upper)
    assert found.converged_
    assert violation <= 1.1e-3
    assert found.kkt_violation_ == pytest.approx(violation, abs=2e-4)
    assert objective == pytest.approx(naive.certificate(wanted, K, y, upper)[0], rel=1e-5)
    assert (found.predict(X) == wanted.predict(X)).mean() >= 0.999


@pytest.mark.parametrize("far", [1e6, 1e12])
@pytest.mark.parametrize("row", [0, 399])
@pytest.mark.filterwarnings("ignore:The features have very different lengths")
def test_one_far_row_does_not_blur_the_others(far, row):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.standard_normal((400, 3)) + y[:, None]
    X[row, 0] = far
    wanted = svm.SVC(gamma=0.5, tol=1e-6).fit(X, y)
    found = SVC(gamma=0.5, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-4)


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("scale", [2.0**-75, 2.0**75])
@pytest.mark.parametrize("kernel", ["poly", "rbf", "exponential"])
def test_rows_may_be_of_any_size(kernel, scale):
    """Their squares, and the gamma that makes up for them, are no numbers of float32."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = (np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(300) > 0).astype(int)
    is_root = kernel == "exponential"
    wanted = SVC(kernel=kernel, gamma=0.5 if is_root else "scale").fit(X, y)
    found = SVC(kernel=kernel, gamma=0.5 / scale if is_root else "scale").fit(scale * X, y)
    assert found.converged_
    np.testing.assert_allclose(found.decision_function(scale * X), wanted.decision_function(X), atol=2e-3)


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("value", [-3.4e38, 1e300])
def test_rows_to_predict_may_be_far_beyond_the_samples(value, form):
    """As where 3.4e38 stands for no value."""
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((300, 3)), rng.standard_normal((4, 3))
    model = SVC(C=0.1).fit(X, X[:, 0] > 0)
    wanted, Z[1, 2] = model.decision_function(form(Z)), value
    wanted[1] = model.intercept_[0]
    np.testing.assert_array_equal(model.decision_function(form(Z)), wanted)


def test_features_of_rows_far_beyond_the_samples_are_zeros():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((300, 3)).astype(np.float32), rng.standard_normal((4, 3)).astype(np.float32)
    features = NystroemFeatures(n_components=20, random_state=0).fit(X)
    wanted, Z[1, 2] = features.transform(Z), -3.4e38
    wanted[1] = 0
    np.testing.assert_array_equal(features.transform(Z), wanted)


# --- targets that vary too much ----------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_targets_that_coefficients_cannot_follow_are_told(machine):
    """As prices of houses in the thousands, with C=1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = 200_000 + 50_000 * X[:, 0]
    with pytest.warns(UserWarning, match=r"vary too much for C: .* most 1 change a prediction of \w+ by 150 at most"):
        model = machine().fit(X, y)
    assert model.score(X, y) < 0.01
    scaled = TransformedTargetRegressor(machine(), transformer=StandardScaler()).fit(X, y)  # as the warning says
    assert scaled.score(X, y) > 0.9
    machine(C=1e5).fit(X, y)
    machine(C=1e-3).fit(X, X[:, 0])  # as cells of a search have
    machine(kernel="linear").fit(X, y)  # whose values have no bound
