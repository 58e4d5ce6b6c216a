"""Multiclass hinge, softmax and logistic loss on images: losses of mini-batches, templates, confusion matrix."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from bench import recipes
from fastsvm import SGDClassifier
from fastsvm.displays import ConfusionDisplay, ConvergenceDisplay, TemplatesDisplay

TITLE = "Three losses of ten classes of images"

_LOSSES = {"weston_watkins": "multiclass hinge", "softmax": "softmax", "log_loss": "logistic, each against the rest"}
_BATCH, _STEPS = 200, 1_000
_MANY = 10_000


class Images(NamedTuple):
    """Training and test images as bytes, their shape, and the names of their classes."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    shape: tuple[int, ...]
    names: list[str]


def draw(out: Path, quick: bool) -> str:
    """Draw losses of mini-batches of 200, the templates of the classes, and the confusion matrix of the best model."""
    images = _images(quick)
    X, X_test = _features(images)
    figure = plt.figure(figsize=(13, 20.5))
    curves, *strips, last = figure.subfigures(5, 1, height_ratios=[3.2, 2, 2, 2, 11.5])
    accuracies = {}
    for ax, strip, (loss, name) in zip(curves.subplots(1, 3), strips, _LOSSES.items(), strict=True):
        model = _fitted(X, images.y, loss)
        accuracies[loss] = model.score(X_test, images.y_test)
        ConvergenceDisplay.from_estimator(model, y="loss", ax=ax)
        ax.set_title(f"{name}: accuracy {accuracies[loss]:.1%}")
        _draw_templates(strip, model.coef_[:, :-1], images, name)
        if accuracies[loss] == max(accuracies.values()):
            best, predicted = name, model.predict(X_test)
    ax = last.subplots()
    ax.set_title(f"{best}: confusion matrix of {len(X_test):,} test images, with the first image of each cell")
    ConfusionDisplay.from_predictions(
        images.y_test, predicted, images.X_test, images.shape, class_names=images.names, ax=ax
    )
    figure.savefig(out)
    plt.close(figure)
    return _words(images, len(model.loss_curve_), list(accuracies.values()))


def _images(quick: bool) -> Images:
    if "FASTSVM_DATA" in os.environ and not quick:
        names = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
        return Images(*recipes.cifar10(50_000), (3, 32, 32), names)
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X.astype(np.uint8), y, train_size=1_000, random_state=0)
    return Images(X, y, X_test, y_test, (8, 8), list("0123456789"))


def _features(images: Images) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels of mean 0 and variance 1, and a last feature that is 1, whose weight is the intercept."""
    mean, deviation = images.X.mean(axis=0, dtype=np.float64), images.X.std(axis=0, dtype=np.float64)
    dtype = np.float32 if len(images.X) > _MANY else np.float64  # few images need no memory saved
    prepared = []
    for bytes_ in (images.X, images.X_test):
        rows = np.ones((len(bytes_), bytes_.shape[1] + 1), dtype)
        rows[:, :-1] = bytes_
        rows[:, :-1] -= mean.astype(dtype)
        rows[:, :-1] /= np.where(deviation > 0, deviation, 1).astype(dtype)
        prepared.append(rows)
    return prepared[0], prepared[1]


def _fitted(X: np.ndarray, y: np.ndarray, loss: str) -> SGDClassifier:
    model = SGDClassifier(
        loss=loss, margin=1.0, penalty="l2", alpha=1e-2, fit_intercept=False, batch_size=_BATCH, average=False,
        max_iter=_STEPS * _BATCH // len(X), tol=None, random_state=0,
    )  # fmt: skip
    return model.fit(X, y)


def _draw_templates(strip: plt.Figure, coef: np.ndarray, images: Images, name: str) -> None:
    strip.suptitle(f"{name}: template of each class")
    templates = TemplatesDisplay(coef.reshape(-1, *images.shape), images.names)
    if len(images.shape) == 3:
        templates.templates = np.moveaxis(templates.templates, 1, -1)
    templates.plot(strip, n_columns=10)


def _words(images: Images, steps: int, accuracies: list[float]) -> str:
    data = "the bundled digits" if images.shape == (8, 8) else "CIFAR-10"
    told = ", ".join(f"{name} {accuracy:.1%}" for name, accuracy in zip(_LOSSES.values(), accuracies, strict=True))
    return (
        f"{len(images.X):,} images of {data}, and {len(images.X_test):,} others as test set. A linear model gives each "
        "image a score for each class. Three losses say how wrong scores are. The multiclass hinge wants the score of "
        "the true class to exceed each other score by the margin Δ = 1. Softmax wants its share of probability to be "
        "large. The logistic loss treats each class against the rest. Each step follows the mean gradient of "
        f"{_BATCH} images, {steps:,} times, plus the gradient of the penalty, 0.01 ½‖w‖². The intercept is the weight "
        "of an extra feature that is 1 for each image, so it is penalised like the others. The intercept of "
        "SGDClassifier itself, fit_intercept=True, is not penalised.\n\n"
        f"The loss of single mini-batches (pale) goes up and down; its running mean falls. Accuracy: {told}. The "
        "weights of a class are an image too, its template. In the confusion matrix each row is a true class and each "
        "column a predicted one. Each cell shows its first image; off the diagonal are the mistakes."
    )
