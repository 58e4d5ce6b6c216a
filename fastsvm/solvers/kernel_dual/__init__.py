"""The dual problem of a kernel machine: decomposition, coordinate ascent, interior point."""
