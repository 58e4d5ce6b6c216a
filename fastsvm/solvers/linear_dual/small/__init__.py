"""Linear problems of few samples, solved to rounding error."""
