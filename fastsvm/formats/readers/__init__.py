"""Published formats, a file each: rows and labels of a file, block by block."""
