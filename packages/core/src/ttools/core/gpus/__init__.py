"""Data about GPUs: architectures with their limits, devices with their rates."""
