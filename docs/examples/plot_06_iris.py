"""
Three kinds of iris, six kernels
================================

A support vector machine separates two classes. For three classes one is trained for each of the three pairs, and each
votes. The shade is the kind with most votes. All pictures show the same two features with different kernels.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import SVC
from fastsvm.displays import MarginDisplay

data = load_iris(as_frame=True)
X, y = data.data, np.array([f"iris {name}" for name in data.target_names])[data.target]
plane = X[["sepal length (cm)", "sepal width (cm)"]]
kernels = {
    "linear": {},
    "poly": {"degree": 3, "coef0": 1},
    "rbf": {},
    "laplacian": {},
    "exponential": {},
    "sigmoid": {"gamma": 0.1},
}

figure, axes = plt.subplots(2, 3, figsize=(14, 8), sharex=True, sharey=True)
for ax, (name, given) in zip(axes.flat, kernels.items(), strict=True):
    model = make_pipeline(StandardScaler(), SVC(kernel=name, **given))
    of_two, of_four = (cross_val_score(model, rows, y, cv=5).mean() for rows in (plane, X))
    MarginDisplay.from_estimator(model.fit(plane, y), plane, y, ax=ax, legend=name == "linear")
    ax.set_title(f"{name}: accuracy {of_two:.0%} with two features,\n{of_four:.0%} with four", fontsize=11)
    ax.label_outer()
plt.show()

# %%
# The linear kernel gives straight borders, and the sigmoid nearly straight ones. The polynomial of degree 3, the
# Gaussian (rbf) and the exponential kernel give curved borders. The laplacian, which adds up the differences of the
# features, gives borders with corners.
#
# One kind is easy to recognise. The other two overlap in this plane, and no kernel can separate them. With all four
# features every kernel does well. Here other features help more than other kernels.
