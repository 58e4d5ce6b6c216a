"""Estimators with scikit-learn's `fit`, `predict` and attributes, for libraries with other interfaces."""
