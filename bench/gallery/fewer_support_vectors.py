"""Fewer support vectors: what they cost in decision values and in accuracy."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from bench.gallery.shared.style import COLOURS
from fastsvm import SVC, compress
from fastsvm.displays import CompressionDisplay

TITLE = "How many support vectors does a model need?"

_TOL = 0.1


def draw(out: Path, quick: bool) -> str:
    """Draw the differences of decision values, and the accuracy with and without labels, against what stays."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, train_size=600 if quick else 0.75, random_state=0)
    model = SVC(C=10, gamma=0.2).fit(X, y)
    n, exact = len(model.support_), model.score(X_test, y_test)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.8))
    display = CompressionDisplay.from_estimator(model, X, tol=_TOL, ax=left)
    sizes = np.geomspace(10, n - 1, 6 if quick else 14).astype(int)
    for words, labels, colour in (("without labels", None, COLOURS[0]), ("with labels", y, COLOURS[1])):
        small = [compress(model, X, n_support=size, y=labels).model for size in sizes.tolist()]
        right.plot(sizes, [each.score(X_test, y_test) for each in small], ".-", color=colour, label=words)
    right.axhline(exact, color="0.3", linestyle=":", linewidth=1, label=f"{n} support vectors, as fitted")
    right.set(xscale="log", xlabel="support vectors that stay", ylabel="accuracy on test samples")
    right.xaxis.set_major_formatter("{x:,.0f}")
    right.grid(alpha=0.3)
    right.legend(fontsize=9)
    figure.savefig(out)
    plt.close(figure)
    return (
        "A prediction computes the kernel of the sample with each support vector. "
        f"This model of the ten digits has {n}. `compress` keeps some of them and fits their coefficients anew. On "
        f"the left are the differences of its decision values on the {len(X):,} samples of the fit. For none beyond "
        f"{_TOL:g} the model needs {display.compression.n_support} support vectors.\n\n"
        f"Classes depend on signs only, so that far fewer are enough. On the right is the accuracy on {len(X_test)} "
        "other samples. With labels the least squares lean towards these by a margin. That helps where classes overlap "
        "much, and these do not: the curves are much the same."
    )
