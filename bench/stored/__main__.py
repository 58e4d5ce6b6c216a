"""Write the tables of all pages anew: `python -m bench.stored`."""

from bench.stored.pages import PAGES, filled

for page in PAGES:
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
