"""Kernel machines with fewer support vectors."""
