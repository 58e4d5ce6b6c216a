"""Support vector regression: the tube that is given, the tube that is found, and many features."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastsvm import SVR, NuSVR
from fastsvm.displays import TubeDisplay

TITLE = "A tube around a curve"

_EPSILON, _NU, _NU_MANY = 1.0, 0.2, 0.5


def draw(out: Path, quick: bool) -> str:
    """Draw tubes for one feature of wines, and for ten features of patients."""
    figure, axes = plt.subplots(2, 2, figsize=(14, 9.6))
    wine = load_wine(as_frame=True).data
    X, y = wine[["flavanoids"]], wine["color_intensity"].rename("color intensity")
    given, found = SVR(C=10, epsilon=_EPSILON).fit(X, y), NuSVR(C=10, nu=_NU).fit(X, y)
    told = [_draw_tube(ax, model, X, y) for ax, model in zip(axes[0], (given, found), strict=True)]
    axes[0, 0].set_title(f"SVR, epsilon = {_EPSILON:g}: {told[0]:.0%} of the wines are outside")
    axes[0, 1].set_title(f"NuSVR, nu = {_NU:g}: {told[1]:.0%} are outside, epsilon = {found.epsilon_:.2f}")

    patients = load_diabetes(as_frame=True, scaled=False)
    X_many, y_many = patients.data, patients.target.rename("progression of diabetes")
    many = make_pipeline(StandardScaler(), NuSVR(C=100, gamma=0.02, nu=_NU_MANY)).fit(X_many, y_many)
    told.append(_draw_tube(axes[1, 0], many, X_many, y_many))
    TubeDisplay.from_estimator(many, X_many, y_many, feature="bmi", ax=axes[1, 1])
    axes[1, 0].set_title(f"NuSVR, nu = {_NU_MANY:g}, ten features: {told[2]:.0%} are outside")
    axes[1, 1].set_title("the same model along the body mass index")
    figure.savefig(out)
    plt.close(figure)

    folds = KFold(5 if quick else 20, shuffle=True, random_state=0)
    scores = [_r2(model, X, y, folds) for model in (LinearRegression(), given)]
    scores += [_r2(model, X_many, y_many, folds) for model in (LinearRegression(), many)]
    return _words(given, found, many[-1], told, scores)


def _draw_tube(ax: plt.Axes, model: Any, X: Any, y: Any) -> float:
    """Draw the tube. Return the share of samples that are outside, those at its edge not counted."""
    display = TubeDisplay.from_estimator(model, X, y, ax=ax)
    tol = (model if hasattr(model, "tol") else model[-1]).tol
    return float(np.mean(np.abs(y - model.predict(X)) > display.epsilon + tol))


def _r2(model: Any, X: Any, y: Any, folds: KFold) -> float:
    """Return the coefficient of determination of predictions for unseen samples."""
    return r2_score(y, cross_val_predict(model, X, y, cv=folds))


def _words(given: SVR, found: NuSVR, many: NuSVR, told: list[float], scores: list[float]) -> str:
    n, n_many = given.shape_fit_[0], many.shape_fit_[0]
    return (
        f"{n} wines (above): the flavanoids of a wine say something of its colour, though not along a line. "
        "Cross-validated R² is "
        f"{scores[0]:.2f} for a line, and {scores[1]:.2f} for support vector regression with the Gaussian kernel. The "
        "curve has a tube of width ± epsilon. A sample in the tube costs nothing, and a sample outside costs its "
        "distance from the tube. Samples at the edge or outside are the support vectors, which are circled. The "
        "others could be left out, and the curve would be the same.\n\n"
        f"SVR is given epsilon. With {_EPSILON:g}, {told[0]:.0%} of the wines are outside, and "
        f"{len(given.support_)} are support vectors. NuSVR is given nu instead, and finds epsilon. At most the share "
        f"nu is outside: with {_NU:g} it is {told[1]:.0%}, for epsilon = {found.epsilon_:.2f}, with "
        f"{len(found.support_)} support vectors.\n\n"
        f"{n_many} patients with ten features (below), and how diabetes progressed within a year. More than one "
        "feature can be drawn in two ways. On the left is the target against the prediction, and the curve is the "
        "diagonal. On the right is the prediction along one feature with the others at their medians, and each "
        "patient above or below it by the residual. In both the same patients are in the tube. Cross-validated R² is "
        f"{scores[3]:.2f}, and {scores[2]:.2f} for a linear model: here the curve adds little. "
        "The parameters of the curves were chosen with a look at these scores, which flatters the curves."
    )
