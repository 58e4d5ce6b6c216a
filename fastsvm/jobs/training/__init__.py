"""Training jobs: fits with checkpoints in the folder of a run."""
