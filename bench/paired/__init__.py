"""Two versions of fastsvm, or of its tuning, that fit the same data in turn."""
