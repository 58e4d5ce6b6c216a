"""
A line between two clouds
=========================

Many lines part two clouds of points. The support vector machine chooses the line that is farthest from both. SMO
finds it by steps of two multipliers each.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm.displays import ConvergenceDisplay, MarginDisplay
from fastsvm.displays.curves import Curve

X, y = make_blobs(400, centers=2, n_features=2, random_state=1)
model = SVC(kernel="linear", C=1_000).fit(X, y)
width = 2 / np.linalg.norm(model.coef_)
print(f"the margin is {width:.2f} wide; {len(model.support_)} of {len(X)} points are support vectors")

# %%
# On the dashed lines f is -1 and 1, and no point is between them. The circled points on these lines are the support
# vectors. Only they matter: without the others the line is the same.

figure, ax = plt.subplots(figsize=(6.4, 5.6))
MarginDisplay.from_estimator(model, X, y, ax=ax, points_kwargs={"alpha": 0.6})
ax.set_title(f"the widest margin, {width:.2f} wide")
plt.show()

# %%
# Step by step
# ------------
# SMO chooses a pair of multipliers that violates the optimality conditions and promises the largest gain (Fan, Chen
# and Lin 2005), and solves the problem of these two exactly. Here is the line after each step. A step may move only
# the margins.

steps = int(model.n_iter_[0])
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # they stop early on purpose
    models = [clone(model).set_params(max_iter=k).fit(X, y) for k in range(1, steps + 1)]
colours = plt.colormaps["viridis_r"](np.linspace(0.08, 1, steps))


def draw(model, level, ax, **look):
    """Draw the line on which f has a value."""
    weights, offset = model.coef_.ravel(), model.intercept_[0] - level
    ax.axline(-offset * weights / (weights @ weights), slope=-weights[0] / weights[1], **look)


figure, ax = plt.subplots(figsize=(7, 5.6))
for k in (0, 1):
    ax.scatter(*X[y == k].T, s=16, alpha=0.55, label=f"{k}")
(left, low), (right, high) = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
ax.set(xlim=(left, right), ylim=(low, high))
for k, (one, colour) in enumerate(zip(models, colours, strict=True), 1):
    draw(one, 0, ax, color=colour, linewidth=2.6 if k == steps else 1.6, label=f"after {k} pair steps")
for level in (-1, 1):
    draw(model, level, ax, color=colours[-1], linestyle="--")
ax.legend(loc="lower right", fontsize=9)
plt.show()

# %%
# The proof
# ---------
# Each step raises the dual objective. The primal objective is above it, and may go up and down. Where they meet the
# line is proved optimal.

dual = np.array([one.objective_ for one in models])
primal = dual + [one.duality_gap_ for one in models]
counts = np.arange(1, steps + 1)
curves = [Curve("primal: ½‖w‖² + C · errors", counts, primal), Curve("dual, which SMO raises", counts, dual)]
ConvergenceDisplay(curves, axis_names=("pair steps", "objective")).plot().ax_.set_yscale("log")
plt.show()
print(f"after {steps} steps both are {model.objective_:.4f}")
