"""Kernel machines with landmarks on a cluster: landmarks, features and an exact machine by tasks."""
