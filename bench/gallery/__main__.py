"""Draw the gallery: `python -m bench.gallery --out DIR [--quick] [NAME ...]`, with an index page."""

import argparse
import importlib
import time
from pathlib import Path

from matplotlib import pyplot as plt

from bench.gallery import NAMES
from bench.gallery.page import Entry, page
from bench.gallery.style import STYLE


def main(arguments: list[str] | None = None) -> None:
    """Draw the requested pictures and write `index.html`."""
    parser = argparse.ArgumentParser(prog="python -m bench.gallery", description="Draw the gallery.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which pictures (default: all of {', '.join(NAMES)})")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures and index.html")
    parser.add_argument("--quick", action="store_true", help="smaller data and fewer steps")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    plt.switch_backend("Agg")  # nothing is shown, and a machine without a screen can draw too
    entries = [_entry(name, options.out, options.quick) for name in options.names or NAMES]
    (options.out / "index.html").write_text(page(entries, options.quick), encoding="utf-8")
    print(options.out / "index.html")


def _entry(name: str, folder: Path, quick: bool) -> Entry:
    """Draw one picture. Return its part of the page."""
    begin = time.perf_counter()
    module = importlib.import_module(f"bench.gallery.{name}")
    with plt.rc_context(STYLE):
        words = module.draw(folder / f"{name}.png", quick)
    seconds = time.perf_counter() - begin
    print(f"{name}: {seconds:.1f} s", flush=True)
    return Entry(name, module.TITLE, words, Path(module.__file__).read_text(encoding="utf-8"), seconds)


if __name__ == "__main__":
    main()
