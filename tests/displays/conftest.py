import h5py
import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits, make_moons

from fastsvm import SVC, SVR, SGDClassifier, open_hdf5

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def moons():
    return make_moons(120, noise=0.2, random_state=0)


@pytest.fixture(scope="session")
def moons_model(moons):
    return SVC(C=10).fit(*moons)


@pytest.fixture(scope="session")
def wave():
    """Return X of one feature, and targets about a sine."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 6, (80, 1)), axis=0)
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=80)


@pytest.fixture(scope="session")
def wave_model(wave):
    return SVR(C=10, epsilon=0.25).fit(*wave)


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.uint8), y


@pytest.fixture(scope="session")
def digits_model(digits):
    return SGDClassifier(loss="softmax", max_iter=5, tol=None, random_state=0).fit(digits[0][:900], digits[1][:900])


@pytest.fixture(scope="session")
def long_fit():
    """Return a fit with many steps in its history, because the kernel matrix does not fit in its memory."""
    X, y = make_moons(600, noise=0.3, random_state=0)
    model = SVC(C=10, memory=10**6).fit(X, y)
    assert len(model.history_["violation"]) > 5
    return model


@pytest.fixture(scope="session")
def stored():
    """Return a function that writes a data set to a file and opens it."""

    def write(path, X, y, names=None):
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=X, chunks=(16, X.shape[1]))
            file["y"] = y
            if names is not None:
                file["y"].attrs["class_names"] = names
        return open_hdf5(path)

    return write
