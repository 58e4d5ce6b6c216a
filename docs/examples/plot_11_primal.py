"""
Down the primal: subgradients and Newton's method
=================================================

The primal objective, ½‖w‖² + C Σ loss, falls to its minimum. The hinge loss, max(0, 1 - y f), has a kink at the
margin of each point. There is no gradient, only a subgradient, and no step length suits all points. The squared hinge
has a continuous gradient, and Newton's method uses it (Chapelle 2007).
"""

import warnings

from matplotlib import pyplot as plt
from sklearn.datasets import make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning

from fastsvm import SVC
from fastsvm.displays import MarginDisplay
from fastsvm.kernels import RBF, Polynomial


def fitted(X, y, kernel, **given):
    """Return a model, which may stop before it converges."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(kernel=kernel, **given).fit(X, y)


def compare(X, y, kernel, rate):
    """Draw the models of both methods, and the distance from the minimum after each step."""
    slow = fitted(X, y, kernel, solver="primal", learning_rate=rate, max_iter=500)
    newton = fitted(X, y, kernel, solver="primal", loss="squared_hinge", tol=1e-9)
    least = fitted(X, y, kernel, tol=1e-9).objective_, newton.objective_
    _, axes = plt.subplots(1, 3, figsize=(15, 4.6))
    names = (f"subgradients, rate {rate:g}", "Newton, squared hinge")
    for ax, name, model, minimum in zip(axes, names, (slow, newton), least, strict=False):
        MarginDisplay.from_estimator(model, X, y, ax=ax, legend=False)
        ax.set(title=f"{name}: {len(model.within_margin_)} circled", xlabel="")
        excess = model.history_["objective"] - minimum
        seen = excess > 1e-9 * minimum
        axes[2].plot(model.history_["iteration"][seen], excess[seen], ".-", label=name)
    axes[2].set(xscale="log", yscale="log", xlabel="steps", ylabel="objective above its minimum")
    axes[2].legend()
    plt.show()
    print(f"{int(newton.n_iter_[0])} Newton steps to 1e-9; 500 subgradients end {slow.objective_ - least[0]:.1f} above")


# %%
# On two moons the subgradient steps come near in some ten steps, and then oscillate. Each Newton step goes to the
# point that would be the minimum if no sample crossed its margin. There is no learning rate to choose.

X, y = make_moons(160, noise=0.1, random_state=6)
compare(X, y, RBF.from_sigma(0.7, "sigma2"), rate=1e-3)

# %%
# On two rings the subgradient steps are slow. All points may be classified correctly long before the minimum. The
# squared hinge charges little for a small violation, so more points end up within the margin, circled.

X, y = make_circles(200, noise=0.08, factor=0.5, random_state=0)
compare(X, y, Polynomial(degree=2, coef0=1.0), rate=1e-5)
