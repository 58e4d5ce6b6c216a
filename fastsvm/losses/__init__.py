"""Losses: values, slopes, conjugates and exact steps in the dual."""
