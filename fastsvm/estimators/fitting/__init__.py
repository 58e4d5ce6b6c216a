"""What fits of all estimators share: checks of what is passed, checkpoints, callbacks, progress."""
