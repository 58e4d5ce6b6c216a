"""The primal problem of a kernel machine: Newton, subgradient descent."""
