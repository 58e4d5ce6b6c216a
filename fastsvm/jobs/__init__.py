"""What the command line does: train from a file, score a file, tell what is in one."""
