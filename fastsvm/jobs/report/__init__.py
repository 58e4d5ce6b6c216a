"""Reports of runs: pages of HTML with pictures."""
