import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy import sparse
from sklearn.linear_model import SGDRegressor
from sklearn.svm import SVC as TheirSVC

from fastsvm import SVC, SGDClassifier
from fastsvm.displays import (
    TemplatesDisplay,
)
from fastsvm.displays._samples import as_images


def test_templates_are_the_weights(digits_model):
    display = TemplatesDisplay.from_estimator(digits_model, (8, 8), quantile=1.0)
    assert [ax.get_title() for ax in display.axes_] == [str(label) for label in range(10)]
    for weights, template, image in zip(digits_model.coef_, display.templates, display.images_, strict=True):
        np.testing.assert_array_equal(template, weights.reshape(8, 8))
        np.testing.assert_allclose(image.get_array() * np.abs(weights).max(), template)
        assert image.get_clim() == (-1, 1)


@pytest.mark.parametrize(("shape", "channels"), [((3, 4, 5), "first"), ((4, 5, 3), "last")])
@pytest.mark.parametrize("say", [False, True])
def test_templates_in_colour(shape, channels, say):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 60)), np.arange(60) % 3
    model = SGDClassifier(max_iter=3, tol=None, random_state=0).fit(X, y)
    display = TemplatesDisplay.from_estimator(
        model, shape, channels=channels if say else None, class_names=["ant", "bee", "cat"], quantile=1.0
    )
    weights = model.coef_.reshape(3, *shape)
    weights = np.moveaxis(weights, 1, -1) if channels == "first" else weights
    np.testing.assert_array_equal(display.templates, weights)
    shown = display.images_[1].get_array()
    np.testing.assert_allclose((shown - 0.5) * 2 * np.abs(weights[1]).max(), weights[1], atol=1e-12)
    assert display.axes_[1].get_title() == "bee"


def test_titles_of_pairs_and_of_two_classes(digits):
    X, y = digits
    few = np.isin(y, (3, 5, 8))
    model = SVC(kernel="linear").fit(X[few], y[few])
    display = TemplatesDisplay.from_estimator(model, (8, 8))
    assert display.names == ["3, not 5", "3, not 8", "5, not 8"]
    np.testing.assert_array_equal(display.templates.reshape(3, 64), model.coef_)
    two = np.isin(y, (3, 5))
    model = SGDClassifier(random_state=0).fit(X[two], y[two])
    assert TemplatesDisplay.from_estimator(model, (8, 8), class_names=["three", "five"]).names == ["five, not three"]
    their = TheirSVC(kernel="linear").fit(sparse.csr_matrix(X[two], dtype=float), y[two])
    assert TemplatesDisplay.from_estimator(their, (8, 8)).names == ["5, not 3"]
    regression = SGDRegressor(eta0=1e-4).fit(X / 16, y)
    assert TemplatesDisplay.from_estimator(regression, (8, 8)).names == ["weights"]


def test_templates_in_part_of_a_figure(digits_model):
    figure = plt.figure(layout="constrained")
    left, _ = figure.subfigures(1, 2)
    display = TemplatesDisplay.from_estimator(digits_model, (8, 8), figure=left, n_columns=4)
    assert display.figure_ is left and display.axes_.shape == (10,)
    assert sum(not ax.get_images() for ax in left.axes) == 3  # two cells are empty, one is the colour bar
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("shape", "channels", "words"),
    [
        ((8, 9), None, r"image_shape \(8, 9\) has 72 values, rows have 64"),
        ((64,), None, "must be"),
        ((3, 7, 3), None, "say channels='first' or 'last'"),
        ((4, 4, 4), None, "1 or 3 channels"),
        ((4, 4, 4), "first", "1 or 3 channels, first as"),
        ((3, 4, 4), "last", "1 or 3 channels, last as"),
        ((8, 8), "middle", "'first', 'last' or None, found 'middle'"),
    ],
)
def test_shapes_that_do_not_fit(shape, channels, words, digits_model):
    with pytest.raises(ValueError, match=words):
        TemplatesDisplay.from_estimator(digits_model, shape, channels=channels)


def test_shapes_that_only_the_user_can_tell():
    rows = np.arange(54).reshape(2, 27)
    first, last = (as_images(rows, (3, 3, 3), channels) for channels in ("first", "last"))
    assert first[1, 2, 0, 1] == rows[1].reshape(3, 3, 3)[1, 2, 0]
    assert last[1, 2, 0, 1] == rows[1].reshape(3, 3, 3)[2, 0, 1]
    assert as_images(rows, (1, 9, 3), "first").shape == (2, 9, 3)
    assert as_images(rows, (1, 3, 9)).shape == (2, 3, 9)
    assert as_images(rows, (3, 9, 1), "last").shape == (2, 3, 9)


def test_what_templates_refuse(moons_model, digits_model):
    with pytest.raises(ValueError, match="has no coef_"):
        TemplatesDisplay.from_estimator(moons_model, (1, 2))
    with pytest.raises(ValueError, match="each of the 10 classes, found 2 names"):
        TemplatesDisplay.from_estimator(digits_model, (8, 8), class_names=["a", "b"])
