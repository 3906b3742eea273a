"""CUDA graphs of the mapped device: work is recorded during capture and executed at each replay."""
