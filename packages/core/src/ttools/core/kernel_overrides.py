"""A counter that changes whenever kernels of torch operators are replaced or restored.

Code that caches a looked-up kernel compares the counter: a cached kernel would bypass a later
replacement, or be a replacement that torch refuses to call after its end.
"""

from __future__ import annotations

#: Number of changes so far.
changes = 0


def count_change() -> None:
    """Count a replacement or restoration of kernels."""
    global changes
    changes += 1
