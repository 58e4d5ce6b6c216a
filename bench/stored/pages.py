"""Write the tables into the pages, between `<!-- table: NAME -->` and `<!-- end of table -->`."""

import re
from pathlib import Path

from bench.stored.tables import TABLES

__all__ = ["PAGES", "filled"]

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / name
    for name in (
        "README.md",
        "bench/RESULTS.md",
        "docs/guide/which_solver.md",
        "docs/benchmarks.md",
        "docs/guide/cluster.md",
        "docs/when_not.md",
    )
]
_BLOCK = re.compile(r"(<!-- table: (.*?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return a page whose tables are those of the runs that were kept."""
    return _BLOCK.sub(lambda found: "\n".join([found[1], *TABLES[found[2]](), "", found[3]]), text)
