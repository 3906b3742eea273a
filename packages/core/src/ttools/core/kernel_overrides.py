"""A counter that changes whenever kernels of torch operators are replaced or restored.

Code that caches the kernel of an operator stores the counter with it, and looks the kernel up again
if the counter has changed. Otherwise, it would bypass a replacement that was made later, or call a
replacement that has ended, which torch rejects.
"""

from __future__ import annotations

#: Number of changes so far.
changes = 0


def count_change() -> None:
    """Count a replacement or restoration of kernels."""
    global changes
    changes += 1
