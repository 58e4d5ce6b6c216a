"""What do the methods of the textbooks cost? `python -m bench.classical`, from the root of the repository.

Coordinate ascent beside SMO, the loops of the tutorials beside exact steps, and the primal beside the dual.
"""
