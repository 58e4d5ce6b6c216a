"""What do fits from files cost? `python -m bench.streaming` asks it of linear SVMs, `.kernel` of exact kernel SVMs."""
