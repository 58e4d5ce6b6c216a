"""How files are written: whole or not at all, locked, checked."""
