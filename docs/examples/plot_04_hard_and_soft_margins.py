"""
Soft margins and the hard one
=============================

C is the price of a point within the margin or on the wrong side of it. At a small C violations are cheap: the margin
is wide and the boundary smooth. The larger C, the fewer violations, and the more the boundary bends around single
points.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_moons

from fastsvm import SVC
from fastsvm.displays import MarginDisplay

X, y = make_moons(240, noise=0.22, random_state=1)
X_test, y_test = make_moons(4_000, noise=0.22, random_state=2)

figure, axes = plt.subplots(2, 2, figsize=(12, 9), sharex=True, sharey=True)
for ax, C in zip(axes.flat, (0.1, 1, 100, 1e9), strict=True):
    model = SVC(C=C, gamma=2).fit(X, y)
    MarginDisplay.from_estimator(model, X, y, ax=ax, legend=C == 0.1)
    violations = np.sum(np.where(y == 1, 1, -1) * model.decision_function(X) < 1 - 2 * model.tol)
    ax.set_title(f"C = {C:g}: {violations} in the margin or wrong, test accuracy {model.score(X_test, y_test):.1%}")
    ax.label_outer()
plt.show()

# %%
# In the last picture C is so large that no violation pays. This is the hard margin. It exists because the Gaussian
# kernel can separate any points that differ. It classifies every training point correctly, but fewer test points than
# a soft margin. A perfect fit to the training points is not the aim.
#
# The margin is 2/‖w‖ wide in the space of the kernel, and the dual objective is Σα - ½‖w‖²:

width = 2 / np.sqrt(2 * (np.abs(model.dual_coef_).sum() - model.objective_))
print(f"the hard margin is {width:.4f} wide")
