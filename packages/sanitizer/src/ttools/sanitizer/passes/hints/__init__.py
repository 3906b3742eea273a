"""Checks the hints of a kernel, such as `tl.multiple_of`, against the data.

`conditions.py` defines the condition that each hint states, `locations.py` locates the hints in the
source, and `bad_hint.py` is the pass that checks them.
"""
