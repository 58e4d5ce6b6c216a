"""What several pictures share: style, and two problems."""
