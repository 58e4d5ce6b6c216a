"""The pictures of the pages, drawn from the runs that were kept. Each says in itself which runs it shows."""

from pathlib import Path
from typing import Any, NamedTuple

from bench.harness.outcomes import Result
from bench.harness.suite import DPI, Case, Finished
from bench.stored.kept import Kept, kept
from bench.suites import SUITES

__all__ = ["PICTURES", "Picture"]

_DOCS = Path(__file__).parents[2] / "docs"
_FIELDS = "competitor", "status", "message", "records", "findings"


class Picture(NamedTuple):
    """A file, and what it shows: a suite, or one of its cases with some competitors."""

    path: Path
    suite: str
    case: str = ""
    competitors: tuple[str, ...] = ()

    def _results(self) -> list[Kept]:
        found = [one for one in kept(self.suite) if self.case in ("", one.case["name"])]
        if not self.competitors:
            return found
        by_name = {one.result["competitor"]: one for one in found}
        return [by_name[name] for name in self.competitors]

    def runs(self) -> str:
        """Return the names of the files of the runs that it is to show."""
        return " ".join(sorted({one.path.name for one in self._results()}))

    def shown(self) -> str:
        """Return the names of the files of the runs that it shows, "" if it says nothing."""
        from PIL import Image  # which comes with matplotlib

        with Image.open(self.path) as picture:
            return str(picture.info.get("Description", ""))

    def figure(self) -> Any:
        """Return a figure. Raise ImportError if matplotlib is missing."""
        shown = self._results()
        results: dict[str, list[Kept]] = {}
        for one in shown:
            results.setdefault(one.case["name"], []).append(one)
        finished = [
            Finished(
                Case(name, (self.suite,), recipe=None, parameters=None),  # type: ignore[arg-type]
                tuple(found[0].case["shape"]),
                [Result(**{field: one.result[field] for field in _FIELDS}) for one in found],
            )
            for name, found in results.items()
        ]
        options, machine = shown[0].run["options"], shown[0].run["machine"]
        return SUITES[self.suite].picture(finished, options["timeout"], options["threads"], machine["cpu"])

    def draw(self) -> None:
        """Write the file."""
        self.figure().savefig(self.path, dpi=DPI, metadata={"Description": self.runs()})


PICTURES = (
    Picture(_DOCS / "small_problems.png", "small"),
    Picture(
        _DOCS / "millions.png", "millions", "vessels-75-1000000",
        ("fastsvm", "fastsvm support", "fastsvm SVC", "fastsvm LinearSVC", "sklearn boosting"),
    ),
)  # fmt: skip
"""All pictures of runs."""
