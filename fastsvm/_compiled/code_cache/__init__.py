"""Machine code on disk: the folders where it is kept, and digests of the sources that it was compiled from."""
