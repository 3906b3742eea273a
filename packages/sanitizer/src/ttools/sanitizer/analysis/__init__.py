"""Static analyses of a kernel's IR that hold for all of its launches."""
