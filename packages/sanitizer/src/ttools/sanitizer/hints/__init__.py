"""What a kernel assumes of its arguments: hints in its source, and what it was compiled for."""
