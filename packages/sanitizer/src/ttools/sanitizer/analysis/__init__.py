"""Static analyses of a kernel's IR. Their results hold for all launches of the kernel."""
