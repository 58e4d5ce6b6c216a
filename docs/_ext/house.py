"""A picture of the package: a box for each part, an arrow for each import, drawn from the sources at each build."""

import ast
import functools
from collections import defaultdict
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "fastsvm"
_BOX, _HEIGHT, _FLOOR, _MARGIN = 158, 46, 92, 8
_WORDS = {
    "_compiled": "everything that uses Numba",
    "_interrupt": "Ctrl-C at the start",
    "files": "atomic files, locks",
    "memory": "budgets",
    "tuning": "numbers that decide",
    "messages": "logger and standard error",
    "progress_bar": "bars, and lines in logs",
    "losses": "of labels, numbers, classes",
    "kernels": "a scalar map per kernel",
    "sources": "samples, wherever they are",
    "formats": "published formats to HDF5",
    "linalg": "products, factorisations",
    "kernel_matrix": "kernel rows and their cache",
    "low_rank": "few columns of a kernel",
    "solvers": "a folder per problem",
    "multiclass": "pairs, votes, scores",
    "estimators": "from X and y to a model",
    "compression": "fewer support vectors",
    "persistence": "save and load",
    "exchange": "models of other programs",
    "displays": "pictures",
    "dask": "on several machines",
    "jobs": "the work of the commands",
    "cli": "the command line",
}


def part(module: str) -> str:
    """Return the part of the package that a module is in: the word after `fastsvm`."""
    return module.split(".")[1] if "." in module else ""


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return for each part the parts whose code it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in _PACKAGE.rglob("*.py"):
        here = path.relative_to(_PACKAGE).with_suffix("").parts[0]
        if here.startswith("__"):
            continue
        found[here] |= set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module] if "." in node.module else [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                if (
                    name.startswith("fastsvm.")
                    and (_PACKAGE / part(name)).exists() | (_PACKAGE / f"{part(name)}.py").exists()
                ):
                    found[here].add(part(name))
    return {name: others - {name} for name, others in found.items()}


def floors() -> list[list[str]]:
    """Return the parts in floors, the lowest first; each imports from lower floors only. A circle is a CycleError."""
    level: dict[str, int] = {}
    for name in TopologicalSorter(imports()).static_order():
        level[name] = 1 + max((level[other] for other in imports()[name]), default=-1)
    return [sorted(name for name, found in level.items() if found == one) for one in range(1 + max(level.values()))]


def arrows() -> set[tuple[str, str]]:
    """Return the imports that no chain of other imports implies."""
    below: dict[str, set[str]] = {}
    for name in TopologicalSorter(imports()).static_order():
        below[name] = set().union(*({other} | below[other] for other in imports()[name]))
    return {
        (name, other)
        for name, others in imports().items()
        for other in others
        if not any(other in below[between] for between in others - {other})
    }


def picture() -> str:
    """Return the picture as SVG."""
    place = {}
    rows = floors()
    width = max(map(len, rows)) * (_BOX + 2 * _MARGIN)
    for floor, names in enumerate(rows):
        gap = (width - len(names) * _BOX) / (len(names) + 1)
        for k, name in enumerate(names):
            place[name] = gap + k * (_BOX + gap), _MARGIN + (len(rows) - 1 - floor) * _FLOOR
    height = 2 * _MARGIN + (len(rows) - 1) * _FLOOR + _HEIGHT
    lines = [
        f'<path class="arrow" d="M{place[a][0] + _BOX / 2:.0f} {place[a][1] + _HEIGHT} '
        f"C{place[a][0] + _BOX / 2:.0f} {place[a][1] + _FLOOR:.0f} {place[b][0] + _BOX / 2:.0f} "
        f'{place[b][1] - _FLOOR + _HEIGHT:.0f} {place[b][0] + _BOX / 2:.0f} {place[b][1]}" marker-end="url(#tip)"/>'
        for a, b in sorted(arrows())
    ]
    boxes = [
        f'<g><rect x="{x:.0f}" y="{y:.0f}" width="{_BOX}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + _BOX / 2:.0f}" y="{y + 19:.0f}" class="name">{escape(name)}</text>'
        f'<text x="{x + _BOX / 2:.0f}" y="{y + 36:.0f}" class="words">{escape(_WORDS[name])}</text></g>'
        for name, (x, y) in place.items()
    ]
    title = "The parts of fastsvm: each imports only from parts below it"
    tip = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip += '<path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    inner = "\n".join([f"<title>{title}</title>", tip, *lines, *boxes])
    return f'<svg class="house" role="img" viewBox="0 0 {width} {height}">\n{inner}\n</svg>\n'


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    fresh, path = f'<div class="house">\n{picture()}</div>\n', folder / "house.html"
    if not path.exists() or path.read_text(encoding="utf-8") != fresh:
        path.write_text(fresh, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw the picture before the pages are read."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
