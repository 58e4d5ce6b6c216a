"""The dual problem of a linear machine: coordinate ascent in blocks, with a proximal term."""
