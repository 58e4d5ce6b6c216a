"""Runs that were kept, and the tables that the pages show of them.

`python -m bench.stored` writes the tables anew where a page has a comment such as `<!-- table: landmarks -->`.
"""
