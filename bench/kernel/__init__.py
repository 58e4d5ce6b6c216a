"""Exact kernel SVMs: competitors, referee, table, picture."""
