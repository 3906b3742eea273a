"""CUDA graphs of the mapped device: work is recorded during capture and done at each replay."""
