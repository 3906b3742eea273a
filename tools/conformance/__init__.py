"""Runs the tests that Triton marks for its own interpreter on the engine of ttools.

`python -m tools.conformance --checkout TRITON` prints for each test function the number of cases
that pass, that are wrong, that the engine does not support, and that cannot run without a GPU. The
checkout is not changed.
"""
