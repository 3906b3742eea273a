"""Compilation for a named GPU without having one: stages, static resources, and what they say.

Triton carries its compilers for NVIDIA's and AMD's GPUs with it, so everything short of running
can be looked at anywhere. Nothing here executes a kernel.
"""
