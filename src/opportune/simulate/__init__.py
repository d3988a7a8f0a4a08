"""What happens: the friendly face of the kernels, with blocks, progress and replications."""
