"""Check that all links of a built site lead somewhere, without a network: `python docs/_ext/check_links.py FOLDER`.

Links to other sites are checked for their form and counted. Pictures must have an alternative text.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SCHEMES = {"http", "https", "mailto", "data", "javascript"}


class _Page(HTMLParser):
    """The links and the anchors of a page, and its pictures without words."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.wordless: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag refers to and what it is called."""
        found = dict(attrs)
        self.anchors |= {found[name] or "" for name in ("id", "name") if name in found}
        self.links |= {found[name] or "" for name in ("href", "src") if found.get(name)}
        if tag == "img" and "alt" not in found:  # an empty one says: the words beside it tell all
            self.wordless.append(found.get("src") or "")


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the links of a site, a line each."""
    pages = {path.resolve(): _Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        found += [f"{name}: a picture without words: {source}" for source in page.wordless]
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme:
                if parts.scheme not in _SCHEMES or (parts.scheme.startswith("http") and "." not in parts.netloc):
                    found.append(f"{name}: {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} has no such place")
    return found


if __name__ == "__main__":
    told = problems(Path(sys.argv[1]))
    print("\n".join(told) or "all links lead somewhere")
    sys.exit(bool(told))
