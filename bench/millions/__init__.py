"""Kernel machines of hundreds of thousands of samples and more: landmarks, subsamples and others, from a file."""
