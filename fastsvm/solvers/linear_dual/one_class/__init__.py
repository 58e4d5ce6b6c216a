"""The dual problem of a linear one-class machine, whose variables have a given sum."""
