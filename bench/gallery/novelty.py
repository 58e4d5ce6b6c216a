"""The one-class SVM: a boundary around what is usual, for tumours and for digits."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.gallery.shared.style import COLOURS, legend_above
from fastsvm import OneClassSVM
from fastsvm.displays import MarginDisplay

TITLE = "What is unusual?"

_SHARES = (0.05, 0.3)
_PLANE = ["mean radius", "mean texture"]
_GAMMA_PLANE, _GAMMA_ALL = 0.1, 0.01
_SHOWN = 20


def draw(out: Path, quick: bool) -> str:
    """Draw boundaries for two features and two nu, decision values for all features, and the strangest digits."""
    tumours = load_breast_cancer(as_frame=True)
    benign = tumours.target == 1
    usual, unseen = train_test_split(tumours.data[benign], train_size=0.75, random_state=0)
    novel = tumours.data[~benign]
    figure = plt.figure(figsize=(16, 8.2))
    above, below = figure.subfigures(2, 1, height_ratios=[3.1, 1])
    *planes, right = above.subplots(1, 3)
    told = [_draw_plane(ax, nu, usual[_PLANE], novel[_PLANE]) for ax, nu in zip(planes, _SHARES, strict=True)]
    legend_above(planes[0])
    planes[1].get_legend().remove()
    model = _fitted(usual, _SHARES[0], _GAMMA_ALL)
    told.append(_draw_values(right, model, {"benign, of the fit": usual, "benign, unseen": unseen, "malignant": novel}))
    usual_width = _fitted(usual, _SHARES[0], 1 / usual.shape[1])
    told += [[np.mean(usual_width.decision_function(rows) < 0) for rows in (usual, unseen, novel)], usual.shape[1]]
    n = _draw_digits(below, 500 if quick else None)
    figure.savefig(out)
    plt.close(figure)
    return _words(len(usual), len(novel), n, told)


def _fitted(X: pd.DataFrame, nu: float, gamma: float) -> Pipeline:
    return make_pipeline(StandardScaler(), OneClassSVM(nu=nu, gamma=gamma)).fit(X)


def _draw_plane(ax: plt.Axes, nu: float, usual: pd.DataFrame, novel: pd.DataFrame) -> tuple[float, float, float]:
    """Draw the boundary. Return the shares of outliers and support vectors of the fit, and of novelties found."""
    model = _fitted(usual, nu, _GAMMA_PLANE)
    found = [np.mean(model.decision_function(rows) < 0) for rows in (usual, novel)]
    support = len(model[-1].support_) / len(usual)
    MarginDisplay.from_estimator(model, usual, ax=ax)
    look = {"marker": "x", "s": 18, "c": "0.35", "linewidths": 0.8, "zorder": 1.5}
    crosses = ax.scatter(*novel.to_numpy().T, label="malignant, not in the fit", **look)
    ax.legend(handles=[*ax.get_legend().legend_handles, crosses])
    ax.set_title(f"nu = {nu:g}: {found[0]:.1%} outliers, {support:.1%} support vectors")
    return found[0], support, found[1]


def _draw_values(ax: plt.Axes, model: Pipeline, sets: dict[str, pd.DataFrame]) -> list[float]:
    """Draw the distributions of decision values. Return the share of each set that is below 0."""
    found = {name: model.decision_function(rows) for name, rows in sets.items()}
    edges = np.linspace(*np.quantile(np.concatenate([*found.values()]), [0, 1]), 40)
    for (name, values), colour, style in zip(found.items(), (COLOURS[0], COLOURS[5], COLOURS[1]), "-- ", strict=True):
        filled = {"histtype": "stepfilled", "alpha": 0.75} if style == " " else {"histtype": "step", "linewidth": 2}
        weights = np.full(len(values), 1 / len(values))
        ax.hist(values, edges, weights=weights, color=colour, label=f"{name} ({len(values)})", **filled)
    ax.axvline(0, color="0.1")
    ax.set(xlabel="f", ylabel="share", title=f"all {sets['malignant'].shape[1]} features, nu = {_SHARES[0]:g}")
    ax.legend(fontsize=9, loc="upper left")
    return [float(np.mean(values < 0)) for values in found.values()]


def _draw_digits(figure: plt.Figure, n: int | None) -> int:
    """Draw the images with the lowest and with the highest decision values. Return the number of images."""
    images = load_digits().images[:n]
    rows = images.reshape(len(images), -1) / 16
    order = np.argsort(OneClassSVM(nu=0.1).fit(rows).decision_function(rows), kind="stable")
    parts = {"the most unusual": order[:_SHOWN], "the most usual": order[-_SHOWN:]}
    for ax, (name, numbers) in zip(figure.subplots(2, 1), parts.items(), strict=True):
        framed = np.pad(images[numbers], ((0, 0), (1, 1), (1, 1)))
        ax.imshow(np.hstack(framed), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
    figure.suptitle(f"{len(images):,} handwritten digits by one model, nu = 0.1")
    return len(images)


def _words(n: int, n_novel: int, n_images: int, told: list) -> str:
    *told, usual_width, n_features = told
    (few, few_support, few_found), (many, many_support, many_found), (of_fit, unseen, novel) = told
    return (
        "A one-class SVM is told what is usual, and nothing else. It finds a boundary that holds most samples of the "
        f"fit. Here these are {n} benign tumours. The malignant ones (crosses), {n_novel} of them, come later. nu is "
        "an upper bound on the share of outliers in the fit, and a lower bound on the share of support vectors: "
        f"{few:.1%} ≤ {_SHARES[0]:.0%} ≤ {few_support:.1%} on the left, {many:.1%} ≤ {_SHARES[1]:.0%} ≤ "
        f"{many_support:.1%} in the middle. A larger nu draws the boundary closer. It finds more of the malignant "
        f"tumours, {many_found:.0%} instead of {few_found:.0%}, and calls more benign ones unusual.\n\n"
        f"With all features (right) nu = {_SHARES[0]:g} calls {of_fit:.1%} of the fit unusual, {unseen:.1%} of benign "
        f"tumours that it never saw, and {novel:.1%} of the malignant ones. The fit never saw a malignant tumour. "
        f"But gamma was chosen with a look at these shares: with the usual 1/{n_features} they are "
        f"{', '.join(f'{share:.1%}' for share in usual_width)}.\n\n"
        f"Below are those of {n_images:,} images of digits whose decision values are lowest and highest. The model "
        "does not know the labels."
    )
