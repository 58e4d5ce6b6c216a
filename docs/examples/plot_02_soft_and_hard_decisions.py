"""
Hard and soft decisions
=======================

The hard decision of a linear model is the sign of its score f. It jumps at the line. The soft decision is f clipped
to [-1, 1], that is, at the margins. It rises gradually from one class to the other.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs

from fastsvm import SGDClassifier
from fastsvm.displays import MarginDisplay

X, y = make_blobs(600, centers=[[-1.3, -0.8], [1.3, 0.8]], cluster_std=1.0, random_state=3)
model = SGDClassifier(alpha=0.01, random_state=0).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(11, 4.8))
for ax, method in zip(axes, ("predict", "soft_decision"), strict=True):
    MarginDisplay.from_estimator(
        model, X, y, ax=ax, shade_by=method, circle=False, legend=method == "predict", points_kwargs={"alpha": 0.6}
    )
axes[0].set_title("hard: sign(f)")
axes[1].set_title("soft: clip(f, -1, 1)")
plt.show()

# %%
# Pale colour means: not sure. Points within the margin are wrong more often.

unsure = np.abs(model.soft_decision(X)) < 1
right = model.predict(X) == y
print(f"{unsure.sum()} points within the margin: {right[unsure].mean():.0%} are classified correctly")
print(f"{np.sum(~unsure)} others: {right[~unsure].mean():.1%}")

# %%
# Both along a path at right angles to the line:

w, reach = model.coef_[0], 2.5 / np.linalg.norm(model.coef_)
at = np.linspace(-reach, reach, 801)
path = at[:, None] * w / np.linalg.norm(w) - model.intercept_[0] * w / (w @ w)
figure, ax = plt.subplots(figsize=(7, 4))
ax.plot(at, model.decision_function(path), color="0.5", linestyle=":", linewidth=2, label="f")
ax.plot(at, np.where(model.predict(path) == 1, 1, -1), linewidth=2, label="hard")
ax.plot(at, model.soft_decision(path), linewidth=3, linestyle="--", label="soft")
ax.set(xlabel="distance from the line", ylabel="decision", ylim=(-2.1, 2.1))
ax.grid(alpha=0.3)
ax.legend()
plt.show()
