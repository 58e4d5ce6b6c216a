"""Progress of dual coordinate ascent and of Newton's method for linear machines."""

from typing import Any

from fastsvm.estimators.fitting.progress import LATEST, EpochMonitor, MonitoredFit, left_of
from fastsvm.solvers.outer_loop import Report
from fastsvm.sources import Source

__all__ = ["DualAscentMonitor", "MonitoredFit"]


class DualAscentMonitor(EpochMonitor):
    """Records every epoch of dual coordinate ascent."""

    COLUMNS = ("epoch", "time", "objective", "dual_objective", "gap", "bytes_read")

    def __init__(self, fit: MonitoredFit, source: Source) -> None:
        super().__init__(fit)
        self._source = source

    def row(self, state: Any, report: Report) -> tuple[tuple, dict[str, str]]:
        """Return primal and dual objective, relative gap and bytes read."""
        values = float(state.primal.sum()), report.objective, report.gap, self._source.reads.nbytes
        shown = {"gap": f"{report.gap:.2g}"}
        if self._estimator.criterion == "gap" and not self._bar.disable:
            known = self._records[-LATEST:]
            shown |= left_of([one[1] for one in known], [one[4] for one in known], self._estimator.tol)
        return values, shown
