"""Tables of what is no comparison of fits: textbook methods, new processes, searches, a large file, agreement."""

from itertools import groupby
from statistics import median
from typing import Any

from bench.agreement import SAME
from bench.cases import AVX2
from bench.compression import EXACT, FEWER, TOL, WITH_LABELS
from bench.linear.small import LIBLINEAR, OF_CLASSES, OF_TARGETS
from bench.machines_agreement import SAME_DECISIONS, SAME_OBJECTIVE
from bench.searches.grid import EACH_FIT, OURS, differences
from bench.stored.kept import newest
from bench.stored.markdown import seconds, table
from bench.streaming.kernel import RESIDENT

__all__ = [
    "agreement",
    "agreement_in_short",
    "compression",
    "first_answers",
    "from_file",
    "grid_search",
    "large_file",
    "loops",
    "machines_agreement",
    "machines_agreement_in_short",
   
    "other_models",
    "other_searches",
    "reading",
    "small_linear",
    "small_linear_in_short",
    "small_targets",
    "textbook",
    "without_avx512",
]  # fmt: skip

_LAST_POINTS = 3  # of a loop: each is after twice the time of the one before
_TEXTBOOK = {
    "coordinate-a9a-C1": "a9a, C=1, γ=.05", "coordinate-a9a-C100": "the same, C=100",
    "primal-mnist-5000-squared": "MNIST 3/8, 5,000, squared hinge", "primal-mnist-5000-hinge": "the same, hinge",
}  # fmt: skip
_LOOPS = {
    "loops-moons-400-dual": "moons, 400 rows, Gaussian", "loops-donut-500-dual": "donut, 500 rows, polynomial",
    "loops-moons-5000-dual": "moons, 5,000 rows",
}  # fmt: skip
_TABLES = {"a9a": "a9a, 32,561 × 123", "cod-rna": "cod-rna, 59,535 × 8", "kdd": "kdd, 145,586 × 118"}
_SEARCHES = {
    "svr-houses": "SVR, 4,000 × 8, made-up houses, C, ε, γ", "nu-svr-houses": "NuSVR, the same, C, ν, γ",
    "svr-images": "SVR, 4,000 images of MNIST, C, ε", "one-class-images": "OneClassSVM, the same, ν, γ",
    "nu-svc-images": "NuSVC, even digits, ν",
}  # fmt: skip
_SMALL = {
    "iris-standardised": "iris, standardised", "iris": "iris, as it is", "wine-standardised": "wine, standardised",
    "wine": "wine, as it is", "cancer-standardised": "breast cancer, standardised",
    "7-classes-of-200": "7 classes of 200, 8 features", "digits": "digits, 1,797 × 64",
    "60-classes-of-100": "60 classes of 100, 20 features", "noisy-2000": "noisy, 2,000 × 20",
    "wide-300": "300 × 1,000", "diabetes": "diabetes", "targets-500": "500 × 20", "targets-2000": "2,000 × 20",
    "targets-1000": "1,000 × 100", "wide-targets-300": "300 × 1,000",
}  # fmt: skip
_COMPRESSED = {
    "cifar-10-20000": "CIFAR-10 20,000 × 3,072, 10 classes", "digits": "digits", "cod-rna": "cod-rna, 20,000 rows",
    "svr-diabetes": "SVR, diabetes", "one-class-cod-rna": "one class, cod-rna",
}  # fmt: skip

_FILES = {
    "cifar-10-20000": "CIFAR-10 20,000 × 3,072", "cifar-10-50000": "CIFAR-10 50,000 × 3,072",
    "mnist-60000": "MNIST 60,000 × 784",
}  # fmt: skip


def _named(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["competitor"]: one for one in results}


def textbook() -> list[str]:
    """Return seconds, objectives and gaps of coordinate ascent and of solvers of the primal."""
    found, rows = newest("classical"), []
    for case, label in _TEXTBOOK.items():
        for one in found[case]:
            side = "primal" if case.startswith("primal") else "dual"
            value, gap = one["findings"][0][side], max(gap for gap in one["gaps"] if gap is not None)
            spread = f"{min(one['seconds']):.3g}–{max(one['seconds']):.3g}"
            rows.append((label, one["competitor"], f"{one['median_s']:.3g}", spread, f"{value:.8g}", f"{gap:.1e}"))
            label = ""
    return table(["case", "solver", "median s", "min–max", "objective", "gap"], rows)


def loops() -> list[str]:
    """Return seconds of dual ascent as tutorials write it, and when ours has its objective."""
    found, rows = newest("classical"), []
    for case, label in _LOOPS.items():
        exact, stepped, loop = (
            _named(found[case])[name] for name in ("coordinate, exact", "coordinate, loop's rate", "numpy dual loop")
        )
        ended, best = loop["findings"][0]["dual"], exact["findings"][0]["dual"]
        rows.append((
            label, seconds(loop["median_s"]), f"{ended:.4g} of {best:.4g}", f"{exact['reached_s']:.2g}",
            f"{loop['median_s'] / exact['reached_s']:,.0f}", f"{stepped['median_s']:.2g}",
        ))  # fmt: skip
    heading = ["data", "loop s", "its objective", "ours there after s", "ratio", "ours with the loop's rate s"]
    return table(heading, rows)


def first_answers() -> list[str]:
    """Return seconds to the first answers of new processes, without machine code and with it."""
    rows = []
    for name, one in newest("first_answers").items():
        ratio = f"{one['code_s'] / one['peer_s']:.2f}"
        rows.append((name, f"{one['empty_s']:.1f}", f"{one['code_s']:.2f}", f"{one['import_s']:.2f}",
                     f"{one['peer_s']:.2f}", ratio, f"{one['code_mb']:.1f}"))  # fmt: skip
    heading = [
        "",
        "nothing is compiled",
        "with code",
        "of it import",
        "scikit-learn",
        "with code / scikit-learn",
        "MB of code",
    ]
    return table(heading, rows)


def other_models() -> list[str]:
    """Return accuracy and seconds of kernel and linear machines, gradient boosting and logistic regression."""
    rows = []
    for case, label in _TABLES.items():
        for one in newest("other_models")[case]:
            took = (f"{one[name]:.2f}" for name in ("fit_s", "predict_s"))
            rows.append((label, one["competitor"], f"{one['accuracy']:.4f}", *took))
            label = ""
    return table(["data", "model", "accuracy", "fit s", "predict s"], rows)


def grid_search() -> list[str]:
    """Return all searches of MNIST."""
    results = newest("search")["mnist"]
    ours, rows = _named(results)[OURS], []
    for one, apart in zip(results, differences(results), strict=True):
        best = ", ".join(f"{name}={value:g}" for name, value in one["best"].items())
        score = max(sum(cell) / len(cell) for cell in zip(*one["scores"], strict=True))
        ratio = "" if one is ours else f"{one['seconds'] / ours['seconds']:.1f}"
        rows.append((f"`{one['competitor']}`", f"{one['seconds']:.1f}", ratio, best, f"{score:.4f}", f"{apart:.4f}"))
    return table(["search", "seconds", "ratio", "best", "mean score", "largest difference of a fold"], rows)


def other_searches() -> list[str]:
    """Return our searches of machines that are not SVC, beside those that fit each cell."""
    rows = []
    for case, label in _SEARCHES.items():
        found = _named(newest("search")[case])
        ours, theirs = found[OURS], found[EACH_FIT]
        apart = max(differences([ours, theirs]))
        took = ours["seconds"], theirs["seconds"]
        rows.append((label, str(len(ours["scores"][0])), *map(seconds, took), f"{took[1] / took[0]:.1f}",
                     f"{apart:.0e}"))  # fmt: skip
    return table(["search", "cells", "`SVCSearch`", "`GridSearchCV`", "ratio", "scores differ by"], rows)


def large_file() -> list[str]:
    """Return what a fit to a large file has reached after each epoch, and `partial_fit` in as much time."""
    found = _named(newest("streaming")["cifar-10-8GB"])
    rows = []
    for point in found["fastsvm"]["points"]:
        objective, gap = (
            "–" if point[name] is None else form.format(point[name])
            for name, form in (("objective", "{:.2f}"), ("gap", "{:.1e}"))
        )
        reads = "" if point["reads"] is None else f"{point['reads']:.2f}"
        rows.append((f"`LinearSVC`, epoch {point['epoch']}", f"{point['after_s']:.1f}", objective, gap, reads))
    labels = {"loop": "`SGDClassifier.partial_fit`, averaged", "loop without average": "the same, last weights"}
    for name, label in labels.items():
        points = found[name]["points"] if name in found else []
        for point in points[-_LAST_POINTS:]:
            rows.append((label, f"{point['seconds']:.0f}", f"{point['objective']:.2f}", "", ""))
            label = ""
    return table(["", "seconds since the beginning", "objective", "relative gap", "of a reading"], rows)


def agreement_in_short() -> list[str]:
    """Return a sentence about all comparisons with LIBSVM."""
    found = [one for results in newest("agreement").values() for one in results]
    near = sorted(abs(one["relative"]) for one in found)
    agree = sum(value <= SAME for value in near)
    return [
        f"Of {len(found)} objectives {agree} agree within {SAME:g}, and half of them within {median(near):.0e}.",
        f"{sum(one['same'] == 1 for one in found)} models predict the same for all samples.",
    ]


def agreement() -> list[str]:
    """Return the comparisons with LIBSVM that do not agree."""
    rows = [
        (f"{case}, {one['kernel']}, C={one['C']:g}", f"{one['relative']:+.1e}", f"{one['same']:.4f}",
         f"{one['gap']:.0e}", f"{one['other_gap']:.0e}", one["reason"])
        for case, results in newest("agreement").items()
        for one in results
        if one["reason"]
    ]  # fmt: skip
    heading = ["case", "relative difference", "equal predictions", "our KKT gap", "LIBSVM's", "why"]
    return table(heading, rows)


def compression() -> list[str]:
    """Return scores and seconds of models with fewer support vectors."""
    rows = []
    for case, label in _COMPRESSED.items():
        found = {one["way"]: one for one in newest("compression")[case]}
        exact, fewer = found[EXACT], found[FEWER]
        labels = f"{found[WITH_LABELS]['score']:.4f}" if WITH_LABELS in found else "–"
        ratio = exact["predict_s"] / fewer["predict_s"]
        rows.append((
            label, f"{exact['n_support']:,} → {fewer['n_support']:,}", f"{exact['score']:.4f}",
            f"{fewer['score']:.4f}", labels, f"{exact['predict_s']:.2g} → {fewer['predict_s']:.2g} ({ratio:.1f})",
            f"{found[TOL]['n_support']:,}" if TOL in found else "–",
        ))  # fmt: skip
    heading = ["case", "support vectors", "score before", "after", "with labels", "seconds of prediction", "to tol=.1"]
    return table(heading, rows)


def without_avx512() -> list[str]:
    """Return seconds of fits with all instructions, and restricted to AVX2."""
    took = {case: _named(results)["fastsvm"]["median_s"] for case, results in newest("instructions").items()}
    rows = (
        (case, f"{value:.3g}", f"{took[case + AVX2]:.3g}", f"{took[case + AVX2] / value:.1f}")
        for case, value in took.items()
        if not case.endswith(AVX2)
    )
    return table(["case", "AVX-512 s", "AVX2 s", "ratio"], rows)


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _beside_liblinear(losses: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return cells of each small case that has these losses: milliseconds of ours, of LIBLINEAR, and the ratio."""
    rows = []
    for case, results in newest("small_linear").items():
        found = {(one["loss"], one["competitor"]): 1e3 * one["median_s"] for one in results}
        pairs = [(found[loss, "fastsvm"], found[loss, LIBLINEAR]) for loss in losses if (loss, LIBLINEAR) in found]
        if pairs:
            cells = ((_digits(ours), _digits(theirs), f"{theirs / ours:.1f}") for ours, theirs in pairs)
            rows.append((_SMALL[case], *(cell for three in cells for cell in three)))
    return rows


def small_linear() -> list[str]:
    """Return milliseconds of linear classifiers of few samples."""
    titles = (f"{loss.replace('_', ' ')}: fastsvm ms" for loss in OF_CLASSES)
    heading = ["C=1", *(cell for title in titles for cell in (title, "LIBLINEAR ms", "ratio"))]
    return table(heading, _beside_liblinear(OF_CLASSES))


def small_targets() -> list[str]:
    """Return milliseconds of linear regressions of few samples."""
    return table(["`LinearSVR`, C=1", "fastsvm ms", "LIBLINEAR ms", "ratio"], _beside_liblinear(OF_TARGETS))


def small_linear_in_short() -> list[str]:
    """Return sentences about the objectives of linear machines of few samples."""
    above: dict[str, list[float]] = {}
    for case, results in newest("small_linear").items():
        for _, pair in groupby(results, lambda one: one["loss"]):
            ours, theirs = (one["objective"] for one in pair)
            above.setdefault(_SMALL[case], []).append(theirs / ours - 1)
    usual = median(value for values in above.values() for value in values)
    far = sorted((max(values), name) for name, values in above.items() if max(values) > 0.01)
    return [
        "By the float64 referee, the objective of LIBLINEAR, which ends after 1,000 epochs at most, is",
        f"{usual:.0e} above ours in the median, and more than a hundredth above it in these cases:",
        f"{', '.join(f'{name} ({value:.0%})' for value, name in far) or 'none'}.",
    ]


def machines_agreement_in_short() -> list[str]:
    """Return a sentence about all comparisons of machines other than SVC with LIBSVM."""
    found = [one for results in newest("machines_agreement").values() for one in results]
    objectives, values, both = (
        sum(counts) for counts in zip(*((*one["agree"], all(one["agree"])) for one in found), strict=True)
    )
    return [
        f"Of {len(found)} comparisons, the objectives agree within {SAME_OBJECTIVE:g} in {objectives}, the decision",
        f"values within {SAME_DECISIONS:g} in {values}, both in {both}. The others:",
    ]


def machines_agreement() -> list[str]:
    """Return why answers of machines other than SVC differ from LIBSVM's, how often, and the largest gaps."""
    found = [one for results in newest("machines_agreement").values() for one in results if one["reason"]]
    reasons = {}
    for one in found:
        reasons.setdefault(one["reason"], []).append(one)
    rows = (
        (str(len(those)), reason, *(_largest(those, name) for name in ("gap", "other_gap")))
        for reason, those in sorted(reasons.items(), key=lambda each: -len(each[1]))
    )
    return table(["comparisons", "why", "our largest gap", "LIBSVM's"], rows)


def _largest(found: list[dict[str, Any]], gap: str) -> str:
    """Return the largest gap; an indefinite kernel has none, and beside an objective of 0 it means nothing."""
    none = any(word in found[0]["reason"] for word in ("indefinite", "w = 0"))
    return "–" if none else f"{max(one[gap] for one in found):.0e}"


def reading() -> list[str]:
    """Return a sentence about the large file, and how fast it is read."""
    found = {name: one["records"][0] for name, one in _named(newest("streaming")["cifar-10-8GB"]).items()}
    read, (ours, theirs) = found["reading"], (f"{found[name]['peak_mb']:,.0f} MB" for name in ("fastsvm", "loop"))
    return [
        f"Read once from the disk it takes {read['first_s']:.3g} s ({read['mb'] / read['first_s']:,.0f} MB/s), and",
        f"{read['again_s']:.3g} s from the system's memory. Peak memory of the fit's process is {ours}, that of the",
        f"loop's {theirs}.",
    ]


def from_file() -> list[str]:
    """Return what exact kernel machines cost from a file and from memory."""
    rows = []
    for case, label in _FILES.items():
        for one in newest("from_file")[case]:
            is_resident = one["memory"] == RESIDENT
            rows.append((
                label, "in memory" if is_resident else "in the file", "auto" if is_resident else one["memory"],
                seconds(one["seconds"]), f"{one['peak_mb']:,.0f}", "" if is_resident else f"{one['passes']:.0f} times",
                f"{one['objective']:.10g}", f"{one['accuracy']:.4f}",
            ))  # fmt: skip
            label = ""
    heading = ["bytes", "samples are", "`memory`", "fit s", "peak MB", "file read", "objective", "test accuracy"]
    return table(heading, rows)
