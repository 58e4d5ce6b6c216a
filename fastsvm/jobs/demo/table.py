"""The result of the demo as lines of text."""

from collections.abc import Iterator

from fastsvm.jobs.demo.comparison import DemoReport

__all__ = ["table"]


def table(report: DemoReport) -> Iterator[str]:
    """Yield the lines of the result."""
    r = report
    yield ""
    yield f"{r.n_training:,} images of {r.n_features} pixels, deformed from {r.n_originals:,} digits; RBF kernel"
    yield ""
    yield f"{'':22}{'fastsvm':>14}{'scikit-learn':>16}"
    yield _line("fit", f"{r.fit_seconds:.2f} s", f"{r.reference_seconds:.2f} s", f"{r.times_faster:.0f} times faster")
    same = f"{100 * r.same_predictions:.1f} % the same predictions"
    yield _line(f"{r.n_test} test images", f"{100 * r.accuracy:.1f} %", f"{100 * r.reference_accuracy:.1f} %", same)
    apart = abs(r.objective - r.reference_objective) / abs(r.reference_objective)
    yield _line(
        "dual objective", f"{r.objective:.3f}", f"{r.reference_objective:.3f}", f"{apart:.0e} apart, by one judge"
    )
    yield ""
    matrix = f"the kernel matrix would take {r.kernel_matrix_mb:,.0f} MB"
    yield f"{'memory':22}{f'{r.memory_mb:.0f} MB':>14}  {matrix}"
    violation = f"of the optimality conditions at most, tol is {r.tol:g}: exact"
    yield f"{'certificate':22}{r.kkt_violation:>14.1e}  {violation}"
    yield f"{'without deformations':22}{f'{100 * r.plain_accuracy:.1f} %':>14}  of the test images"
    yield f"{'compiling, once':22}{f'{r.compile_seconds:.1f} s':>14}  later runs load the code"
    yield f"{'files':22}{r.folder:>14}"
    if r.picture:
        yield f"{'picture':22}{r.picture:>14}"


def _line(words: str, ours: str, theirs: str, note: str) -> str:
    return f"{words:22}{ours:>14}{theirs:>16}   {note}"
