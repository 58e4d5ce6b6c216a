"""
How many support vectors does a model need?
===========================================

A prediction computes the kernel of the sample with each support vector. `compress` keeps some of them, and fits their
coefficients anew.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fastsvm import SVC, compress

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, train_size=600, random_state=0)
model = SVC(C=10, gamma=0.2).fit(X, y)

# %%
# The differences of the decision values on the samples of the fit, against what stays:

found = compress(model, X, tol=0.1)
figure, ax = plt.subplots(figsize=(7, 4.4))
ax.loglog(found.curve["n_support"], found.curve["max_difference"], label="largest")
ax.loglog(found.curve["n_support"], found.curve["rms_difference"], label="root mean square")
ax.axhline(0.1, color="0.3", linestyle="--", label="tol = 0.1")
ax.set(xlabel="support vectors that stay", ylabel="difference of decision values")
ax.grid(alpha=0.3)
ax.legend()
plt.show()
print(f"for no difference beyond 0.1: {found.n_support} of {len(model.support_)} support vectors")

# %%
# Classes depend on signs only, so that far fewer are enough. With labels the least squares lean towards these by a
# margin. That helps where classes overlap much, and these do not.

sizes = np.geomspace(10, len(model.support_) - 1, 8).astype(int).tolist()
figure, ax = plt.subplots(figsize=(7, 4.4))
for words, labels in (("without labels", None), ("with labels", y)):
    small = [compress(model, X, n_support=size, y=labels).model for size in sizes]
    ax.plot(sizes, [each.score(X_test, y_test) for each in small], ".-", label=words)
ax.axhline(model.score(X_test, y_test), color="0.3", linestyle=":", label="as fitted")
ax.set(xscale="log", xlabel="support vectors that stay", ylabel="accuracy on test samples")
ax.grid(alpha=0.3)
ax.legend()
plt.show()
