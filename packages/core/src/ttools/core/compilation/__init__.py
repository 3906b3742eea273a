"""Compilation of kernels for GPUs that need not be present, and analysis of the results.

Triton includes its compilers for NVIDIA and AMD GPUs, so everything but execution is possible on
any machine.
"""
