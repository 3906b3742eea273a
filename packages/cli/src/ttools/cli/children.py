"""Notes on kernels that child processes launch, because a report covers only one process."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.cli.console import say

_MOST = 6


def say_child_launches(kernels: Sequence[str], launched_here: bool, report: str) -> None:
    """Write a note on the kernels that child processes launched, if there are any.

    Args:
        launched_here: True if this process launched kernels, too.
        report: Name of the report, which does not contain these kernels.
    """
    if kernels:
        here = "" if launched_here else "no Triton kernel was launched in this process; "
        say("note", f"{here}{child_launches_text(kernels)}, which {_are(kernels)} not in {report}")


def child_launches_text(kernels: Sequence[str]) -> str:
    """Return a clause that names the kernels."""
    names = ", ".join(f"`{name}`" for name in kernels[:_MOST])
    more = f" and {len(kernels) - _MOST} more" if len(kernels) > _MOST else ""
    return f"child processes of the program launched {names}{more}"


def _are(kernels: Sequence[str]) -> str:
    return "is" if len(kernels) == 1 else "are"
