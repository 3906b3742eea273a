"""When kernels of torch's operators were last replaced, for those that keep some for speed.

A kernel that was looked up stays what it was: the one beneath a replacement, which then sees
nothing, or a replacement, which torch refuses to call once it was taken back. Must not know who
replaces what.
"""

from __future__ import annotations

#: Differs from what it was whenever kernels were replaced, or put back, in between.
turn = 0


def have_changed() -> None:
    """Says that kernels were replaced or put back."""
    global turn
    turn += 1
