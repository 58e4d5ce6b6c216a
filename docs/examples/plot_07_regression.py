"""
A tube around a curve
=====================

Support vector regression draws a curve with a tube of ± ε. A sample in the tube costs nothing, and a sample outside
costs its distance from the tube. Samples at the edge or outside are the support vectors, which are circled. The
others could be left out, and the curve would be the same.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import SVR, NuSVR
from fastsvm.displays import TubeDisplay

# %%
# The tube that is given, and the tube that is found
# --------------------------------------------------
# The flavanoids of a wine say something of its colour, though not along a line. `SVR` is given ε. `NuSVR` is given ν
# instead, and finds ε: at most the share ν is outside.

wine = load_wine(as_frame=True).data
X, y = wine[["flavanoids"]], wine["color_intensity"].rename("color intensity")
given, found = SVR(C=10, epsilon=1.0).fit(X, y), NuSVR(C=10, nu=0.2).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(12, 4.8))
for ax, model in zip(axes, (given, found), strict=True):
    display = TubeDisplay.from_estimator(model, X, y, ax=ax)
    outside = np.mean(np.abs(y - model.predict(X)) > display.epsilon + model.tol)
    ax.set_title(f"{type(model).__name__}: ε = {display.epsilon:.2f}, {outside:.0%} of the wines are outside")
plt.show()

folds = KFold(5, shuffle=True, random_state=0)
for model in (LinearRegression(), given):
    print(f"{type(model).__name__}: cross-validated R² {cross_val_score(model, X, y, cv=folds).mean():.2f}")

# %%
# Many features
# -------------
# Patients have ten features, and diabetes progressed within a year. This can be drawn in two ways. On the left is the
# target against the prediction, and the curve is the diagonal. On the right is the prediction along one feature with
# the others at their medians, and each patient above or below it by the residual.

patients = load_diabetes(as_frame=True, scaled=False)
X, y = patients.data, patients.target.rename("progression of diabetes")
model = make_pipeline(StandardScaler(), NuSVR(C=100, gamma=0.02, nu=0.5)).fit(X, y)
figure, axes = plt.subplots(1, 2, figsize=(12, 4.8))
TubeDisplay.from_estimator(model, X, y, ax=axes[0])
TubeDisplay.from_estimator(model, X, y, feature="bmi", ax=axes[1])
axes[0].set_title("NuSVR, ν = 0.5, ten features")
axes[1].set_title("the same model along the body mass index")
plt.show()

for one in (LinearRegression(), model):
    print(f"{type(one).__name__}: cross-validated R² {cross_val_score(one, X, y, cv=folds).mean():.2f}")

# %%
# Here the curve adds little. Its parameters were chosen with a look at these scores, which flatters it.
