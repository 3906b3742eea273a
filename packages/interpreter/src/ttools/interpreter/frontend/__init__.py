"""Triton's front end: its options, its passes, and checks of kernels before and after them."""
