"""
The penalty sets the margin
===========================

Pegasos (Shalev-Shwartz, Singer, Srebro and Cotter 2011) minimises the mean hinge loss + λ ½‖w‖² by steps along the
gradient on a few points. λ is the price of long weights, and the margin is 2/‖w‖ wide.
"""

import numpy as np
from matplotlib import pyplot as plt

from fastsvm import SVC, SGDClassifier
from fastsvm.displays import MarginDisplay

# two clouds with a narrow gap, which is oblique to the line between their centres
n = 400
rng = np.random.default_rng(0)
y = np.where(np.arange(n) % 2, 1, -1)
across, along = y * (0.1 + np.abs(rng.normal(0, 0.8, n))), rng.normal(0, 1.2, n) + 0.9 * y
X = np.array([1.0, 0.5]) + np.column_stack([0.6 * across - 0.8 * along, 0.8 * across + 0.6 * along])


def descent(penalty, epochs):
    """Return a model whose steps follow the gradient on 100 points with the rate 0.1."""
    return SGDClassifier(
        alpha=penalty,
        learning_rate="constant",
        eta0=0.1,
        batch_size=100,
        tol=None,
        average=False,
        max_iter=epochs,
        random_state=0,
    )


# %%
# The first steps turn the line. The later ones hardly move it, but narrow its margin.

epochs = 1_000
shown = np.unique(np.geomspace(1, epochs, 6).astype(int)).tolist()
figure, ax = plt.subplots(figsize=(8, 5.6))
for label in (-1, 1):
    ax.scatter(*X[y == label].T, s=9, alpha=0.55, label=f"{label}")
(left, low), (right, high) = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
ax.set(xlim=(left, right), ylim=(low, high))
for k, colour in zip(shown, plt.colormaps["viridis_r"](np.linspace(0.08, 1, len(shown))), strict=True):
    model = descent(1e-4, k).fit(X, y)
    weights, offset = model.coef_.ravel(), model.intercept_[0]
    for level in (0, -1, 1) if k == epochs else (0,):
        foot = (level - offset) * weights / (weights @ weights)
        name = f"after {k * n // 100:,} steps" if level == 0 else None
        style = "--" if level else "-"
        ax.axline(foot, slope=-weights[0] / weights[1], color=colour, linestyle=style, label=name)
ax.legend(loc="lower left", fontsize=9)
ax.set_title("λ = 1e-4: the line after some steps; margins of the last")
plt.show()

# %%
# A large λ keeps the weights short and the margin wide, so that many points violate it. With a small λ the weights
# grow until hardly a point is in the margin. As λ goes to 0, the margin tends to the widest one that contains no
# point.

penalties = (1e-1, 1e-2, 1e-3, 1e-4)
models = [descent(penalty, epochs).fit(X, y) for penalty in penalties]
figure, axes = plt.subplots(1, 4, figsize=(14, 4), sharex=True, sharey=True)
for ax, model in zip(axes, models, strict=True):
    MarginDisplay.from_estimator(model, X, y, ax=ax, legend=False, points_kwargs={"s": 5, "linewidths": 0})
    ax.set(title=f"λ = {model.alpha:g}: {2 / np.linalg.norm(model.coef_):.2f} wide", aspect="equal")
    ax.label_outer()
plt.show()

widest = 2 / np.linalg.norm(SVC(kernel="linear", C=1e6).fit(X, y).coef_)
print(f"the widest margin without a point has {widest:.2f}")
