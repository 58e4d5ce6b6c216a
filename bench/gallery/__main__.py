"""Draw the gallery: `python -m bench.gallery --out DIR [--quick] [NAME ...]`, with an index page."""

import argparse
import html
import importlib
import time
from pathlib import Path

NAMES = ["penalty_and_margin", "cifar_losses"]

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>fastsvm gallery</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }}
  img {{ max-width: 100%; background: white }}
  :root {{ color-scheme: light dark }}
</style>
<h1>fastsvm gallery</h1>
{entries}
</html>
"""
_ENTRY = '<h2>{title}</h2>\n<p>{words}</p>\n<p><img src="{name}.png" alt="{title}"></p>\n'


def main() -> None:
    """Draw the pictures that are asked for and write `index.html`."""
    parser = argparse.ArgumentParser(prog="python -m bench.gallery", description="Draw the gallery.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which pictures (default: all of {', '.join(NAMES)})")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures and index.html")
    parser.add_argument("--quick", action="store_true", help="smaller data and fewer steps")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    entries = []
    for name in options.names or NAMES:
        begin = time.perf_counter()
        picture = importlib.import_module(f"bench.gallery.{name}")
        words = picture.draw(options.out / f"{name}.png", options.quick)
        entries.append(_ENTRY.format(title=html.escape(picture.TITLE), words=html.escape(words), name=name))
        print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)
    (options.out / "index.html").write_text(_PAGE.format(entries="\n".join(entries)), encoding="utf-8")
    print(options.out / "index.html")


if __name__ == "__main__":
    main()
