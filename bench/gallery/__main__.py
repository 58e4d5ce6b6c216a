"""Draw the gallery: `python -m bench.gallery --out DIR [--quick] [NAME ...]`, with an index page."""

import argparse
import html
import importlib
import time
from pathlib import Path
from typing import NamedTuple

from matplotlib import pyplot as plt

from bench.gallery import NAMES
from bench.gallery.shared.style import STYLE

__all__ = ["Entry", "main", "page"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>fastsvm gallery</title>
<style>
  :root {{ color-scheme: light dark }}
  body {{ font: 17px/1.55 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }}
  p, ol {{ max-width: 48rem }}
  img {{ max-width: 100%; background: white }}
  pre {{ overflow-x: auto; font-size: 14px }}
</style>
</head>
<body>
<h1>fastsvm gallery</h1>
<p>What support vector machines do, in pictures, each with the code that made it.{remark}</p>
<ol>
{contents}
</ol>
{entries}
</body>
</html>
"""
_ENTRY = """<article id="{name}">
<h2>{title}</h2>
{words}
<p><img src="{name}.png" alt="{title}"></p>
<details>
<summary>Code: <code>bench/gallery/{name}.py</code></summary>
<pre><code>{code}</code></pre>
</details>
<p>{seconds:.1f} s, <code>python -m bench.gallery {name} --out DIR{quick}</code></p>
</article>"""


class Entry(NamedTuple):
    """One picture: file name without ending, title, text, source of the file that drew it, and seconds it took."""

    name: str
    title: str
    words: str
    code: str
    seconds: float


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


def page(entries: list[Entry], quick: bool) -> str:
    """Return the page as HTML."""
    contents = "\n".join(f'<li><a href="#{entry.name}">{html.escape(entry.title)}</a></li>' for entry in entries)
    remark = " They were drawn with <code>--quick</code>, from small data."
    shown = "\n".join(_shown(entry, quick) for entry in entries)
    return _PAGE.format(contents=contents, entries=shown, remark=remark if quick else "")


def _shown(entry: Entry, quick: bool) -> str:
    words = "\n".join(f"<p>{html.escape(part)}</p>" for part in entry.words.split("\n\n"))
    shown = {key: html.escape(str(value)) for key, value in entry._asdict().items()}
    return _ENTRY.format_map({**shown, "words": words, "seconds": entry.seconds, "quick": " --quick" if quick else ""})


if __name__ == "__main__":
    main()
