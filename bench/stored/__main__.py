"""Write the tables and the pictures of all pages anew: `python -m bench.stored`. Pictures of the same runs stay."""

from bench.stored.pages import PAGES, filled
from bench.stored.pictures import PICTURES

for page in PAGES:
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
for picture in PICTURES:
    if picture.shown() != picture.runs():
        picture.draw()
        print(f"{picture.path} is new: look at it.")
