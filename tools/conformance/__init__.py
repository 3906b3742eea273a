"""Runs the tests that upstream marks for its interpreter on the native engine.

`python -m tools.conformance --checkout TRITON` prints, by function, what passes, what is wrong,
what the engine refuses with a sentence, and what cannot run without a GPU. Nothing of the checkout
is copied or changed.
"""
