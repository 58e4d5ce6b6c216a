"""Kernel machines with landmarks on a cluster: landmarks, features and cells by tasks."""
