"""What is said of kernels that child processes launch: reports are about one process."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.cli.console import say

_MOST = 6


def say_child_launches(kernels: Sequence[str], launched_here: bool, report: str) -> None:
    """A note on the kernels that children launched; nothing if they launched none.

    Args:
        launched_here: whether this process launched any.
        report: what they are not in.
    """
    if kernels:
        here = "" if launched_here else "no Triton kernel was launched in this process; "
        say("note", f"{here}{child_launches_text(kernels)}, which {_are(kernels)} not in {report}")


def child_launches_text(kernels: Sequence[str]) -> str:
    """Who launched what."""
    names = ", ".join(f"`{name}`" for name in kernels[:_MOST])
    more = f" and {len(kernels) - _MOST} more" if len(kernels) > _MOST else ""
    return f"processes that the program started launched {names}{more}"


def _are(kernels: Sequence[str]) -> str:
    return "is" if len(kernels) == 1 else "are"
