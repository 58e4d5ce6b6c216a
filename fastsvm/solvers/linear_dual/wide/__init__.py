"""The dual problem of sparse rows with many features, such as texts."""
