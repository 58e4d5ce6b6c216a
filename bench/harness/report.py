"""What came out? JSON with everything that was measured, and what is printed of it."""

from dataclasses import asdict
from pathlib import Path

from bench.harness import growth
from bench.harness.data import Data
from bench.harness.outcomes import Options
from bench.harness.study import Study
from bench.harness.suite import Finished, View

__all__ = ["Report"]


class Report(Study):
    """Collects the results of a suite, and tells of them.

    Parameters
    ----------
    suite : str
        Name of the suite.
    view : View
        How its results are shown.
    options : Options
        How it was run.
    folder : Path
        Where to save.
    """

    def __init__(self, suite: str, view: View, options: Options, folder: Path) -> None:
        super().__init__(suite, folder, options=options.json(), exponents={}, skipped=[], wrong=[])
        self.options, self.view = options, view
        self.finished: list[Finished] = []

    def record(self, finished: Finished, data: Data) -> None:
        """Add what came out for a case."""
        self.finished.append(finished)
        self.content["exponents"] = growth.exponents(self.finished)
        self.content["wrong"] += self.view.failures(finished)
        self.add(
            finished.case.name,
            [{**one.json(), **self.view.compared(one, finished)} for one in finished.results],
            parameters=asdict(finished.case.parameters),
            shape=list(data.X.shape),
            dtype=str(data.X.dtype),
            classes=len(set(data.y.tolist())),
            test_rows=data.X_test.shape[0],
        )

    @property
    def failed(self) -> bool:
        """Whether a competitor failed or an answer is wrong."""
        statuses = [result.status for one in self.finished for result in one.results]
        return "failed" in statuses or bool(self.content["wrong"])

    def skip(self, name: str, why: str) -> None:
        """Record, and print, that a case or a competitor does not take part."""
        print(f"{name} is skipped: {why}.")
        self.content["skipped"].append({"name": name, "why": why})
        self.save()

    def last_lines(self) -> list[str]:
        """Return the table of the last case."""
        return self._lines(self.finished[-1:])

    def lines(self) -> list[str]:
        """Return the table of all cases. If some are sizes of one problem, the exponents follow."""
        slopes = growth.exponent_lines(self.finished)
        return [*self._lines(self.finished), *([""] if slopes else []), *slopes]

    def _lines(self, finished: list[Finished]) -> list[str]:
        wrong = [text for one in finished for text in self.view.failures(one)]
        return [*self.view.lines(finished, self.options), *(f"FAILED: {text}" for text in wrong)]
