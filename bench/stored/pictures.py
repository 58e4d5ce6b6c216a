"""The pictures of the pages, drawn from the runs that were kept. Each says in itself which runs it shows."""

from pathlib import Path
from typing import Any, NamedTuple

from bench.harness.outcomes import Result
from bench.harness.suite import Case, Finished
from bench.stored.kept import Kept, kept
from bench.suites import SUITES

__all__ = ["PICTURES", "Picture"]

_DOCS = Path(__file__).parents[2] / "docs"
_DPI = 150
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
        """Return the names of the files of the runs that it shows; "" if it says nothing."""
        return str(_texts(self.path).get("Description", ""))

    def figure(self) -> Any:
        """Return a figure. Raise ImportError if matplotlib is missing."""
        shown, suite = self._results(), SUITES[self.suite]
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
        figure = suite.view.figure(finished, suite.clock, shown[0].run["options"]["timeout"])
        options, machine = shown[0].run["options"], shown[0].run["machine"]
        figure.suptitle(f"{suite.question}\n{machine['cpu']}, {options['threads']} threads")
        return figure

    def draw(self) -> None:
        """Write the file."""
        self.figure().savefig(self.path, dpi=_DPI, metadata={"Description": self.runs()})


def _texts(path: Path) -> dict[str, str]:
    """Return the texts in a PNG file, by their keywords (PNG specification, 11.3.3.2)."""
    found, data, place = {}, path.read_bytes(), 8
    while place < len(data):
        size, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        if kind == b"tEXt":
            name, _, text = data[place + 8 : place + 8 + size].partition(b"\0")
            found[name.decode("latin-1")] = text.decode("latin-1")
        place += size + 12
    return found


PICTURES = (
    Picture(_DOCS / "small_problems.png", "small"),
    Picture(
        _DOCS / "millions.png", "millions", "vessels-75-1000000",
        ("fastsvm", "fastsvm support", "fastsvm SVC", "fastsvm LinearSVC", "sklearn boosting"),
    ),
)  # fmt: skip
"""All pictures of runs."""
