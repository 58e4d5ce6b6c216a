"""Three kinds of iris with six kernels: regions for two features, and accuracy with two and with four."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.gallery.shared.style import legend_above
from fastsvm import SVC
from fastsvm.displays import MarginDisplay

TITLE = "Three kinds of iris, six kernels"

_KERNELS = {
    "linear": {},
    "poly": {"degree": 3, "coef0": 1},
    "rbf": {},
    "laplacian": {},
    "exponential": {},
    "sigmoid": {"gamma": 0.1},
}


def draw(out: Path, quick: bool) -> str:
    """Draw the regions of the three classes for each kernel."""
    data = load_iris(as_frame=True)
    X, y = data.data, np.array([f"iris {name}" for name in data.target_names])[data.target]
    plane = X[["sepal length (cm)", "sepal width (cm)"]]
    figure, axes = plt.subplots(2, 3, figsize=(15.5, 8.6), sharex=True, sharey=True)
    told = []
    for ax, (name, given) in zip(axes.flat, _KERNELS.items(), strict=True):
        model = make_pipeline(StandardScaler(), SVC(kernel=name, **given))
        of_two, of_four = (cross_val_score(model, rows, y, cv=3 if quick else 10).mean() for rows in (plane, X))
        MarginDisplay.from_estimator(model.fit(plane, y), plane, y, ax=ax, legend=ax is axes[0, 0])
        ax.set_title(f"{name}: accuracy {of_two:.0%} with two features, {of_four:.0%} with four", fontsize=11)
        ax.label_outer()
        told.append((of_two, of_four, len(model[-1].support_)))
    legend_above(axes[0, 0])
    figure.savefig(out)
    plt.close(figure)
    return _words(told)


def _words(told: list[tuple[float, float, int]]) -> str:
    of_two, of_four, vectors = (np.array(column) for column in zip(*told, strict=True))
    return (
        "150 flowers of three kinds. A support vector machine separates two classes. For three classes one is trained "
        "for each of the three pairs, and each votes. The shade is the kind with most votes. All pictures show the "
        "same two features, length and width of the sepals, with different kernels. The linear kernel gives straight "
        "borders, and the sigmoid nearly straight ones. The polynomial of degree 3, the Gaussian (rbf) and the "
        "exponential kernel give curved borders. The laplacian, which adds up the differences of the features, gives "
        "borders with corners.\n\n"
        "One kind is easy to recognise. The other two overlap in this plane, and no kernel can separate them: the "
        f"cross-validated accuracy is {of_two.min():.0%} to {of_two.max():.0%} for all kernels, with "
        f"{vectors.min()} to {vectors.max()} support vectors, which are circled. With all four features it is "
        f"{of_four.min():.0%} to {of_four.max():.0%}. Here other features help more than other kernels."
    )
