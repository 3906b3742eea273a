"""Divisibility hints about a kernel's arguments, read from the kernel's source."""
