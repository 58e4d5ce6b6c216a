"""Pictures of what the solvers do, one short file each, which defines `draw(out, quick)`."""
