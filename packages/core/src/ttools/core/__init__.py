"""Shared ground of the ttools packages.

Errors, source locations, running a user's script, buffers, the device map, the one file of
Triton version differences, configuration and environment. Knows no engine. Import from the
modules themselves: this file exports nothing, so that importing one never pulls in another.
"""
