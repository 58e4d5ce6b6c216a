"""The page on which the pictures are shown."""

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
  :root {{ color-scheme: light dark; --rule: #ddd; --shade: #f6f6f6 }}
  @media (prefers-color-scheme: dark) {{ :root {{ --rule: #444; --shade: #1e1e1e }} }}
  body {{ font: 17px/1.55 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto 6rem; padding: 0 1rem }}
  p, ol {{ max-width: 48rem }}
  article {{ border-top: 1px solid var(--rule); margin-top: 3rem }}
  img {{ max-width: 100%; background: white; border: 1px solid var(--rule); border-radius: 6px }}
  pre {{ background: var(--shade); padding: 1rem; overflow-x: auto; font-size: 14px; line-height: 1.4 }}
  summary {{ cursor: pointer }}
  .small {{ font-size: 14px; opacity: 0.75 }}
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
<p class="small">{seconds:.1f} s, <code>python -m bench.gallery {name} --out DIR{quick}</code></p>
</article>"""


class Entry(NamedTuple):
    """One picture.

    Attributes
    ----------
    name : str
        Of its file, without the ending.
    title, words : str
        What stands above it; empty lines part paragraphs.
    code : str
        Source of the file that drew it.
    seconds : float
        How long that took.
    """

    name: str
    title: str
    words: str
    code: str
    seconds: float


def page(entries: list[Entry], quick: bool) -> str:
    """Return the page with some pictures, as HTML."""
    contents = "\n".join(f'<li><a href="#{entry.name}">{html.escape(entry.title)}</a></li>' for entry in entries)
    remark = " These are the quick ones, of small data; the others are drawn without <code>--quick</code>."
    shown = "\n".join(_shown(entry, quick) for entry in entries)
    return _PAGE.format(contents=contents, entries=shown, remark=remark if quick else "")


def _shown(entry: Entry, quick: bool) -> str:
    words = "\n".join(f"<p>{html.escape(part)}</p>" for part in entry.words.split("\n\n"))
    return _ENTRY.format(
        name=entry.name,
        title=html.escape(entry.title),
        words=words,
        code=html.escape(entry.code),
        seconds=entry.seconds,
        quick=" --quick" if quick else "",
    )
