"""Readers of published formats, one format per file. They return rows and labels block by block."""
