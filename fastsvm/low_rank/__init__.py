"""Kernels of low rank: landmarks, and features whose dot products approximate the kernel."""
