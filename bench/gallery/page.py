"""The page that shows the pictures."""

import html
from typing import NamedTuple

__all__ = ["Entry", "page"]

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
