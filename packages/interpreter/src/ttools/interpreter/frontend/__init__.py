"""Triton's front end: its options, its passes, and what is refused before and after them."""
