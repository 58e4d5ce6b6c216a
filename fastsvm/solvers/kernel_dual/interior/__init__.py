"""Interior point method for the dual of a small kernel machine."""
