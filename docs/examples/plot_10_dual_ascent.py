"""
Up the dual: coordinate ascent
==============================

A support vector machine can be trained in the dual. Each point has a multiplier α between 0 and C, and the dual
objective Σα - ½ ΣΣ ααyy k(x, x) rises to its maximum. Points whose α is 0 at the end do not count. The others are the
support vectors.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm.displays import MarginDisplay
from fastsvm.kernels import RBF, Polynomial


def fitted(X, y, kernel, **given):
    """Return a model without an intercept in its problem, which may stop before it converges."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(kernel=kernel, solver="coordinate", **given).fit(X, y)


def compare(X, y, kernel, rate):
    """Draw the models of both kinds of steps, and the dual objective during the fits."""
    given, exact = fitted(X, y, kernel, learning_rate=rate, max_iter=500), fitted(X, y, kernel)
    _, axes = plt.subplots(1, 3, figsize=(15, 4.6))
    for ax, model, name in zip(axes, (given, exact), (f"rate {rate:g}", "exact steps"), strict=False):
        MarginDisplay.from_estimator(model, X, y, ax=ax, legend=False)
        ax.set(title=f"{name}: {len(model.within_margin_)} circled, accuracy {model.score(X, y):.1%}", xlabel="")
    counts = np.unique(np.geomspace(1, exact.n_iter_[0], 30).astype(int))
    objectives = [fitted(X, y, kernel, max_iter=int(k)).objective_ for k in counts]
    axes[2].plot(len(y) * given.history_["iteration"], given.history_["objective"], label=f"rate {rate:g} for all")
    axes[2].plot(counts, objectives, label="exact steps 1/k(x, x)")
    axes[2].axhline(exact.objective_, color="0.3", linestyle="--", linewidth=1, label="the optimum")
    axes[2].set(xscale="log", xlabel="updated multipliers", ylabel="dual objective", ylim=(0, 1.4 * exact.objective_))
    axes[2].legend(loc="upper left")
    plt.show()


# %%
# Two moons
# ---------
# The kernel is exp(-‖x - z‖² / 0.25). On the left all multipliers move along the gradient with one learning rate,
# which the user must choose. If it is too large the steps do not converge, and if it is too small they take very long.
# In the middle one multiplier moves at a time, by the exact step 1/k(x, x), so there is nothing to choose (Hsieh et
# al. 2008).

X, y = make_moons(160, noise=0.1, random_state=6)
compare(X, y, RBF.from_sigma(0.5, "sigma2"), rate=1e-2)

# %%
# A donut
# -------
# Two rings with the kernel (1 + x·z)². The same number of updates of single multipliers goes much further.

X, y = make_circles(200, noise=0.08, factor=0.5, random_state=0)
compare(X, y, Polynomial(degree=2, coef0=1.0), rate=1e-3)
