"""A counter that changes whenever kernels of torch operators are replaced or restored.

Code that caches a looked-up kernel compares the counter: a cached kernel would bypass a later
replacement, or be a replacement that torch refuses to call after its end.
"""

from __future__ import annotations

#: Number of changes so far.
turn = 0


def have_changed() -> None:
    """Count a replacement or restoration of kernels."""
    global turn
    turn += 1
