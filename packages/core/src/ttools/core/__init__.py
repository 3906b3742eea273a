"""Errors, source locations, findings, reports, scripts, the device map and Triton's versions.

The other packages build on this one. Import from its modules: this file exports nothing, so that
importing one module never loads another.
"""
