"""Execution of host code with symbolic sizes and fake tensors, to record its launches."""
