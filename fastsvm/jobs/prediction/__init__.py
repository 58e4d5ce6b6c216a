"""Prediction jobs: predictions in files, resumed where they were interrupted."""
