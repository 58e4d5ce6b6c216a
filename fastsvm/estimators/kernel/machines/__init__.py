"""Estimators with kernels: what they are asked, and what they answer."""
