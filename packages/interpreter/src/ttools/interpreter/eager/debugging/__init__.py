"""Debugging of kernels that run as Python: kernel frames, stop points and prompts."""
