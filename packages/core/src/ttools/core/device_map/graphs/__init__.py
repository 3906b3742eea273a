"""CUDA graphs of the mapped device: what is recorded instead of done, and done at each replay."""
