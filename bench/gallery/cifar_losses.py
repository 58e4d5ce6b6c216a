"""Multiclass hinge, softmax and logistic on images: the loss of every mini-batch, and what the weights look like."""

import os
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from bench import recipes
from fastsvm import SGDClassifier

TITLE = "Three losses of ten classes of images"

_LOSSES = {"weston_watkins": "multiclass hinge", "softmax": "softmax", "log_loss": "logistic, one-vs-rest"}


def draw(out: Path, quick: bool) -> str:
    """Draw loss curves of mini-batches of 200, and the classes' templates."""
    X, y, X_test, y_test, shape = _images(quick)
    epochs = max(4, -(-1_000 * 200 // len(X)))
    figure = plt.figure(figsize=(14, 8.4), layout="constrained")
    curves, *strips = figure.subfigures(4, 1, height_ratios=[2.6, 1, 1, 1])
    axes = curves.subplots(1, 3)
    told = []
    for axis, strip, (loss, words) in zip(axes, strips, _LOSSES.items(), strict=True):
        model = SGDClassifier(
            loss=loss, alpha=1e-2, batch_size=200, max_iter=epochs, tol=None, average=False, standardize=True,
            random_state=0,
        ).fit(X, y)  # fmt: skip
        accuracy = model.score(X_test, y_test)
        told.append(f"{words} {accuracy:.1%}")
        _curve(axis, model.loss_curve_, f"{words}: {accuracy:.1%} right")
        strip.suptitle(f"{words}: weights of each class", fontsize=10)
        _templates(strip, model.coef_, shape)
    figure.savefig(out, dpi=100)
    plt.close(figure)
    data = "the bundled digits" if shape == (8, 8) else "CIFAR-10"
    return (
        f"{len(X):,} images of {data}, standardised as they are read, mini-batches of 200, "
        f"{len(model.loss_curve_):,} steps, half-L2 penalty, weights after the last step. "
        f"Test accuracy: {', '.join(told)}."
    )


def _images(quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, tuple[int, ...]]:
    if "FASTSVM_DATA" in os.environ and not quick:
        data = recipes.cifar10(50_000)
        return data.X, data.y, data.X_test, data.y_test, (3, 32, 32)
    X, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X.astype(np.uint8), y, random_state=0)
    return train, y_train, test, y_test, (8, 8)


def _curve(axis: plt.Axes, losses: np.ndarray, title: str) -> None:
    width = max(1, len(losses) // 50)
    smooth = np.convolve(losses, np.full(width, 1 / width), "valid")
    axis.plot(losses, color="0.75", linewidth=0.7, label="each mini-batch")
    axis.plot(np.arange(len(smooth)) + width / 2, smooth, color="#1f5fa8", label=f"mean of {width}")
    axis.set(title=title, xlabel="step", ylabel="loss", ylim=(0, np.quantile(losses, 0.999) * 1.05))
    axis.legend(frameon=False)


def _templates(strip: plt.Figure, coef: np.ndarray, shape: tuple[int, ...]) -> None:
    for axis, weights in zip(strip.subplots(1, len(coef)), coef, strict=True):
        image = weights.reshape(shape)
        image = np.moveaxis(image, 0, -1) if len(shape) == 3 else image
        reach = np.quantile(np.abs(image), 0.995)
        axis.imshow(np.clip(0.5 + image / (2 * reach), 0, 1), cmap="gray")
        axis.axis("off")
