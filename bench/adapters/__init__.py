"""Libraries whose own interface is not scikit-learn's, as estimators with its `fit`, `predict` and attributes."""
