import h5py
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.metrics import confusion_matrix

from fastsvm import SVC, open_hdf5
from fastsvm.displays import (
    ConfusionDisplay,
)


def test_counts_are_those_of_scikit_learn(digits, digits_model):
    X, y = digits[0][900:], digits[1][900:]
    display = ConfusionDisplay.from_estimator(digits_model, X, y, (8, 8))
    predicted = digits_model.predict(X)
    counts = confusion_matrix(y, predicted)
    np.testing.assert_array_equal(display.counts, counts)
    written = [[int(text.get_text()) for text in row] for row in display.text_]
    np.testing.assert_array_equal(written, counts)
    assert display.ax_.get_title() == f"{(y == predicted).mean():.1%} of 897 right"
    assert set(display.images_) == {(a, b) for a, b in np.ndindex(10, 10) if counts[a, b]}
    for (a, b), image in display.images_.items():
        row = np.flatnonzero((y == a) & (predicted == b))[0]
        np.testing.assert_allclose(image.get_array(), X[row].reshape(8, 8) / 16)
        left, right, bottom, top = image.get_extent()
        assert b - 0.5 < left < right < b + 0.5 and a - 0.5 < top < bottom < a + 0.5
    display.figure_.canvas.draw()


def test_a_table_has_counts_alone():
    X, y = load_wine(return_X_y=True)
    X = X / X.std(axis=0)
    model = SVC(C=0.1).fit(X, y)
    wanted = confusion_matrix(y, model.predict(X))
    for display in (
        ConfusionDisplay.from_estimator(model, X, y, class_names=["a", "b", "c"]),
        ConfusionDisplay.from_predictions(y, model.predict(X), class_names=["a", "b", "c"]),
    ):
        np.testing.assert_array_equal(display.counts, wanted)
        assert display.images_ == display.examples == {} and display.names == ["a", "b", "c"]
        assert [text.get_position() for text in display.text_.ravel()] == [(b, a) for a, b in np.ndindex(3, 3)]
    with pytest.raises(ValueError, match="y_true 177 labels, y_pred 178"):
        ConfusionDisplay.from_predictions(y[1:], model.predict(X))


def test_labels_that_are_shown(digits):
    X, y = digits
    rng = np.random.default_rng(0)
    predicted = np.where(rng.random(len(y)) < 0.7, y, rng.permutation(y))
    display = ConfusionDisplay.from_predictions(y, predicted, X, (8, 8), labels=[7, 2, 11], class_names=["a", "b", "c"])
    np.testing.assert_array_equal(display.counts, confusion_matrix(y, predicted, labels=[7, 2, 11]))
    row = np.flatnonzero((y == 7) & (predicted == 2))[0]
    largest = max(image.max() for image in display.examples.values())
    np.testing.assert_allclose(display.examples[0, 1] / largest * 16, X[row].reshape(8, 8))
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b", "c"]


def test_only_the_rows_shown_are_read(tmp_path, digits, digits_model, stored):
    X, y = digits
    names = [f"digit {label}" for label in range(10)]
    predicted = digits_model.predict(X)
    with stored(tmp_path / "digits.h5", X, y, names) as data:
        before = data.X.reads.nbytes
        display = ConfusionDisplay.from_predictions(None, predicted, data, (8, 8))
        assert data.X.reads.nbytes - before == 64 * len(display.examples)
        again = ConfusionDisplay.from_estimator(digits_model, data, None, (8, 8))
    in_memory = ConfusionDisplay.from_predictions(y, predicted, X, (8, 8))
    assert display.names == again.names == names
    for cell, image in in_memory.examples.items():
        np.testing.assert_array_equal(display.examples[cell], image)
        np.testing.assert_array_equal(again.examples[cell], image)


def test_images_however_they_are_held(tmp_path, digits):
    X, y = digits[0][:80], digits[1][:80]
    predicted = np.roll(y, 1)
    wanted = ConfusionDisplay.from_predictions(y, predicted, X, (8, 8)).examples
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        rows = sparse.csr_matrix(X)
        for part in ("data", "indices", "indptr"):
            file[f"X/{part}"] = getattr(rows, part)
        file["X"].attrs["shape"] = rows.shape
        file["y"] = y
    with open_hdf5(tmp_path / "rows.h5") as data:
        for kind in (X.astype(np.float32) / 16, X.tolist(), X.reshape(-1, 8, 8), pd.DataFrame(X), rows, data):
            found = ConfusionDisplay.from_predictions(y, predicted, kind, (8, 8)).examples
            for cell, image in wanted.items():
                np.testing.assert_allclose(found[cell], image, atol=1e-7)


def test_brightness_of_standardised_and_of_colours():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 48)), np.arange(20) % 2
    display = ConfusionDisplay.from_predictions(y, y, X, (3, 4, 4))
    shown = np.array(list(display.examples.values()))
    assert shown.shape == (2, 4, 4, 3) and (shown.min(), shown.max()) == (0, 1)
    wanted = (np.moveaxis(X[0].reshape(3, 4, 4), 0, -1) - X[:2].min()) / np.ptp(X[:2])
    np.testing.assert_allclose(shown[0], wanted)
    ConfusionDisplay.from_predictions(y, y, np.zeros((20, 16)), (4, 4)).figure_.canvas.draw()


def test_confusions_in_axes_of_others(digits):
    figure, (left, right) = plt.subplots(1, 2)
    left.set_title("mine")
    display = ConfusionDisplay.from_predictions(digits[1], digits[1], digits[0], (8, 8), ax=left, cmap="gray_r")
    assert display.ax_ is left and display.figure_ is figure and left.get_title() == "mine" and not right.images
    assert left.get_xlim() == (-0.5, 9.5) and left.get_ylim() == (9.5, -0.5)
    assert display.images_[0, 0].get_cmap().name == "gray_r"


def test_what_confusions_refuse(digits, digits_model):
    X, y = digits
    with pytest.raises(ValueError, match="y_true is needed"):
        ConfusionDisplay.from_predictions(None, y, X, (8, 8))
    with pytest.raises(ValueError, match="y_true is needed"):
        ConfusionDisplay.from_estimator(digits_model, X, None, (8, 8))
    with pytest.raises(ValueError, match="X has 1797 rows, y_true 1796 labels, y_pred 1797"):
        ConfusionDisplay.from_predictions(y[1:], y, X, (8, 8))
    with pytest.raises(ValueError, match="has 72 values, rows have 64"):
        ConfusionDisplay.from_predictions(y, y, X, (8, 9))
    with pytest.raises(ValueError, match="each of the 10 classes, found 3 names"):
        ConfusionDisplay.from_predictions(y, y, X, (8, 8), class_names=list("abc"))
    with pytest.raises(ValueError, match="no row whose class"):
        ConfusionDisplay.from_predictions(y, y, X, (8, 8), labels=[20, 21])
