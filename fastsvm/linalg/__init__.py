"""Products and factors of dense and sparse matrices, in blocks and on threads."""
