"""
What is unusual?
================

A one-class SVM is told what is usual, and nothing else. It finds a boundary that holds most samples of the fit. Here
these are benign tumours. The malignant ones come later.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import OneClassSVM
from fastsvm.displays import MarginDisplay

tumours = load_breast_cancer(as_frame=True)
benign = tumours.target == 1
usual, unseen = train_test_split(tumours.data[benign], train_size=0.75, random_state=0)
novel = tumours.data[~benign]

# %%
# ν is an upper bound on the share of outliers in the fit, and a lower bound on the share of support vectors. A larger
# ν draws the boundary closer. It finds more of the malignant tumours, and calls more benign ones unusual.

plane = ["mean radius", "mean texture"]
figure, axes = plt.subplots(1, 2, figsize=(12, 5))
for ax, nu in zip(axes, (0.05, 0.3), strict=True):
    model = make_pipeline(StandardScaler(), OneClassSVM(nu=nu, gamma=0.1)).fit(usual[plane])
    MarginDisplay.from_estimator(model, usual[plane], ax=ax, legend=False)
    ax.scatter(*novel[plane].to_numpy().T, marker="x", s=18, c="0.35", linewidths=0.8, zorder=1.5)
    outliers, support = np.mean(model.decision_function(usual[plane]) < 0), len(model[-1].support_) / len(usual)
    ax.set_title(f"ν = {nu:g}: {outliers:.1%} outliers, {support:.1%} support vectors")
plt.show()

# %%
# The crosses are malignant, and not in the fit. With all thirty features far more of them are found. gamma was
# chosen with a look at these shares. With the usual 1/30 more of the unseen benign ones are called unusual too.

for gamma in (0.01, 1 / 30):
    model = make_pipeline(StandardScaler(), OneClassSVM(nu=0.05, gamma=gamma)).fit(usual)
    shares = [np.mean(model.decision_function(rows) < 0) for rows in (usual, unseen, novel)]
    print(
        f"gamma {gamma:.3f}: {shares[0]:.0%} of the fit, {shares[1]:.0%} of unseen benign, {shares[2]:.0%} of malignant"
    )

# %%
# The digits whose decision values are lowest and highest. The model does not know the labels.

images = load_digits().images
rows = images.reshape(len(images), -1) / 16
order = np.argsort(OneClassSVM(nu=0.1).fit(rows).decision_function(rows), kind="stable")
figure, axes = plt.subplots(2, 1, figsize=(11, 2.4))
for ax, name, numbers in zip(axes, ("most unusual", "most usual"), (order[:20], order[-20:]), strict=True):
    ax.imshow(np.hstack(np.pad(images[numbers], ((0, 0), (1, 1), (1, 1)))), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()
