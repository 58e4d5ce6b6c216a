"""Errors of a model: confusion matrix, predictions against targets, and examples of errors."""

import math
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fastsvm.displays._images import as_images, rows_at
from fastsvm.jobs.inspection import class_name
from fastsvm.jobs.report.html import Html, joined, shown, table
from fastsvm.jobs.report.svg import Axes, Line, chart, picture
from fastsvm.jobs.training.train import Tested
from fastsvm.sources import HDF5Data, open_hdf5
from fastsvm.tuning import current_tuning

__all__ = ["confusions", "errors", "scatter"]


def confusions(tested: Tested) -> Html:
    """Return the confusion matrix or, for many classes, the pairs that are confused most often."""
    labels, places = np.unique(np.concatenate([tested.truth, tested.predicted]), return_inverse=True)
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, tuple(places.reshape(2, -1)), 1)
    with open_hdf5(tested.path) as data:
        names = [class_name(label, data.class_names) for label in labels]
    return _matrix(counts, names) if len(names) <= current_tuning().limits.shown else _frequent(counts, names)


def _matrix(counts: np.ndarray, names: list[str]) -> Html:
    tall = ' class="tall"' if max(map(len, names)) > current_tuning().look.digits else ""
    head = joined(Html(f'<th scope="col"{tall}><span>{shown(name)}</span></th>') for name in (*names, "correct"))
    lines = []
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        n = int(row.sum())
        cells = joined(_cell(int(count), n, i == j) for j, count in enumerate(row))
        share = f"{100 * row[i] / n:.1f} %" if n else "–"
        lines.append(Html(f'<tr><th scope="row">{shown(name)}</th>{cells}<td>{share}</td></tr>'))
    body = f"<thead><tr><td></td>{head}</tr></thead><tbody>{joined(lines)}</tbody>"
    words = "Rows are true classes, columns are predicted classes."
    return Html(f'<p class="note">{words}</p><div class="wide"><table class="confusion">{body}</table></div>')


def _cell(count: int, n: int, diagonal: bool) -> Html:
    """Return a cell that is coloured by its share of the row; a root makes rare errors visible."""
    if not count:
        return Html('<td class="none">0</td>')
    share = count / n
    depth, look = (0.1 + 0.5 * share, "diagonal") if diagonal else (0.6 * math.sqrt(share), "beside")
    return Html(f'<td class="of {look}" style="--depth:{depth:.2f}">{shown(count)}</td>')


def _frequent(counts: np.ndarray, names: list[str]) -> Html:
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[: current_tuning().limits.shown]
    pairs = [(i, j) for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True) if wrong[i, j]]
    words = f"The most frequent confusions among {len(names):,} classes."
    rows = [(names[i], names[j], int(wrong[i, j]), int(counts[i].sum())) for i, j in pairs]
    return joined([Html(f'<p class="note">{words}</p>'), table(("true", "predicted", "samples", "of"), rows)])


def scatter(tested: Tested) -> Html:
    """Return a scatter plot of the predictions of a regression against the targets."""
    truth, predicted = (np.asarray(values, np.float64) for values in (tested.truth, tested.predicted))
    ends = np.array([min(truth.min(), predicted.min()), max(truth.max(), predicted.max())])
    axes = Axes("Predictions", "target", "prediction", square=True)
    lines = [Line("equal", ends, ends, "limit"), Line("", truth, predicted, "cloud first")]
    return Html(f'<div class="pair">{chart(lines, axes)}</div>')


# --- errors ------------------------------------------------------------------------------------------------------


def errors(tested: Tested, model: Any) -> Html:
    """Return examples of wrong predictions, drawn if the samples are images; nothing if all are correct.

    For a regression, the examples are those with the largest errors.
    """
    if not is_classifier(model):
        return _largest(tested)
    wrong = np.flatnonzero(tested.truth != tested.predicted)
    if not len(wrong):
        return Html("")
    chosen = wrong[np.unique(np.linspace(0, len(wrong) - 1, current_tuning().limits.shown).round().astype(int))]
    with open_hdf5(tested.path) as data:
        columns = tested.truth[chosen], tested.predicted[chosen]
        names = [[class_name(label, data.class_names) for label in column] for column in columns]
        rows, images = tested.rows[chosen].tolist(), _images(data, tested.rows[chosen])
    entries = list(zip(rows, *names, strict=True))
    all_or_some = f"{len(chosen)} of" if len(chosen) < len(wrong) else "All"
    words = f"{all_or_some} {len(wrong):,} errors among {len(tested.rows):,} samples, in the order of the file."
    drawn = _in_columns(("row", "true", "predicted"), entries) if images is None else _gallery(entries, images)
    return joined([Html(f'<p class="note">{words}</p>'), drawn])


def _largest(tested: Tested) -> Html:
    difference = np.asarray(tested.predicted, np.float64) - tested.truth
    chosen = np.argsort(-np.abs(difference), kind="stable")[: current_tuning().limits.shown]
    columns = (values[chosen].tolist() for values in (tested.rows, tested.truth, tested.predicted, difference))
    rows = [(row, *map(float, values)) for row, *values in zip(*columns, strict=True)]
    words = Html(f'<p class="note">The {len(rows)} largest errors among {len(difference):,} samples.</p>')
    return joined([words, _in_columns(("row", "true", "predicted", "difference"), rows)])


def _in_columns(head: tuple[str, ...], rows: list[tuple]) -> Html:
    """Return a table as two halves side by side."""
    half = max(current_tuning().limits.shown // 2, -(-len(rows) // 2))
    tables = joined(table(head, part) for part in (rows[:half], rows[half:]) if part)
    return Html(f'<div class="pair">{tables}</div>')


def _gallery(entries: list[tuple[int, str, str]], images: np.ndarray) -> Html:
    drawn = []
    for (row, true, predicted), pixels in zip(entries, images, strict=True):
        words = f"<b>{shown(true)}</b><br>predicted {shown(predicted)}"
        image = picture(pixels, f"row {row}: {true}, predicted {predicted}")
        drawn.append(Html(f'<figure title="row {row}">{image}<figcaption>{words}</figcaption></figure>'))
    return Html(f'<div class="images">{joined(drawn)}</div>')


def _images(data: HDF5Data, rows: np.ndarray) -> np.ndarray | None:
    """Return samples as grey or colour images of bytes, scaled to the range of values; None if they are no images."""
    shape = _image_shape(data.shape[1])
    if shape is None:
        return None
    images = as_images(rows_at(data, rows).astype(np.float64), shape)
    if not _is_smooth(images):
        return None
    low, high = images.min(), images.max()
    step = -(-shape[-1] // current_tuning().look.most_side)
    return ((images[:, ::step, ::step] - low) * (255 / (high - low))).round().astype(np.uint8)


def _image_shape(n_values: int) -> tuple[int, ...] | None:
    """Return the shape of a square image with so many values, in grey or, as in CIFAR-10, in three colour planes."""
    for colours in (1, 3):
        side = math.isqrt(n_values // colours)
        if colours * side * side == n_values and side >= current_tuning().look.least_side:
            return (side, side) if colours == 1 else (3, side, side)
    return None


def _is_smooth(images: np.ndarray) -> bool:
    """Return whether neighbouring pixels are alike: a table may have as many columns as an image has pixels."""
    pixels = images.reshape(len(images), -1)
    others = pixels[:, np.random.default_rng(0).permutation(pixels.shape[1])]
    return bool(np.abs(np.diff(images, axis=2)).mean() < current_tuning().look.smooth * np.abs(pixels - others).mean())
