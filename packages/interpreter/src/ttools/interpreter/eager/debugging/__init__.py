"""Debugging kernels that run as Python: whose a frame is, where to stop, what a prompt shows."""
