"""What is tried where working sets make slow progress."""
