"""What torch's operators do with tensors of a mapped device."""
