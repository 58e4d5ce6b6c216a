"""One epoch of coordinate ascent over a window of rows, dense or sparse."""
