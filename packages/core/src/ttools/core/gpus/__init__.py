"""GPUs as data: architectures with their limits, devices with their rates."""
