"""Processes in which configurations run, so that one that crashes or hangs costs only itself."""
