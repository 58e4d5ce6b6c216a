"""
Three losses of ten classes of images
=====================================

A linear model gives each image a score for each class. Three losses say how wrong scores are. The multiclass hinge
wants the score of the true class to exceed each other score by a margin (Weston and Watkins 1999). Softmax wants its
share of probability to be large. The logistic loss treats each class against the rest.

With the environment variable `FASTSVM_DATA` the images are the 50,000 of CIFAR-10, else scikit-learn's digits.
"""

import os

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fastsvm import SGDClassifier
from fastsvm.displays import ConfusionDisplay, ConvergenceDisplay, TemplatesDisplay

if "FASTSVM_DATA" in os.environ:
    from bench.recipes import cifar10

    X, y, X_test, y_test = cifar10(50_000)
    shape, names = (3, 32, 32), ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
else:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X.astype(np.uint8), y, train_size=1_000, random_state=0)
    shape, names = (8, 8), list("0123456789")

# %%
# Each step follows the mean gradient of 200 images, 1,000 times, plus the gradient of the penalty, 0.01 ½‖w‖². The
# loss of single mini-batches (pale) goes up and down; its running mean falls.

losses = {"weston_watkins": "multiclass hinge", "softmax": "softmax", "log_loss": "logistic"}
models = {}
figure, axes = plt.subplots(1, 3, figsize=(14, 4))
for ax, (loss, name) in zip(axes, losses.items(), strict=True):
    model = SGDClassifier(
        loss=loss,
        alpha=0.01,
        batch_size=200,
        max_iter=1_000 * 200 // len(X),
        tol=None,
        average=False,
        learning_rate="auto",
        standardize=True,
        random_state=0,
    )
    models[loss] = model.fit(X, y)
    ConvergenceDisplay.from_estimator(model, y="loss", ax=ax)
    ax.set_title(f"{name}: test accuracy {model.score(X_test, y_test):.1%}")
plt.show()

# %%
# The weights of a class are an image too, its template. Here a weight is multiplied by the standard deviation of its
# pixel, so that pixels that hardly change do not stand out.

for loss, name in losses.items():
    figure = plt.figure(figsize=(12, 1.9))
    figure.suptitle(name)
    templates = TemplatesDisplay((models[loss].coef_ * X.std(axis=0)).reshape(-1, *shape), names)
    if len(shape) == 3:
        templates.templates = np.moveaxis(templates.templates, 1, -1)
    templates.plot(figure, n_columns=10)
    plt.show()

# %%
# In the confusion matrix each row is a true class and each column a predicted one. Each cell shows its first image;
# off the diagonal are the mistakes.

figure, ax = plt.subplots(figsize=(9, 8))
predicted = models["softmax"].predict(X_test)
ConfusionDisplay.from_predictions(y_test, predicted, X_test, shape, class_names=names, ax=ax)
plt.show()
