"""Kernel machines of landmarks: Nyström features, and linear machines that learn on them."""
