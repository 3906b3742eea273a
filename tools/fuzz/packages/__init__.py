"""Scripts that launch the kernels of packages, for `python -m tools.fuzz --mutate NAME`."""
