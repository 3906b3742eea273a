"""A time limit for launches that are loaded from files.

A file may be untrusted input: its grid may be huge, and its loops may never end, without the user
expecting it. Therefore, a launch loaded from a file has a time limit by default, unlike a launch of
a script.
"""

from __future__ import annotations

from ttools.core.errors import KernelError
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.launching import make_launch

#: Default time limit in seconds for a launch loaded from a file; `sanitize` has the same default.
DEFAULT_TIMEOUT = 600.0


def make_limited_launch(launch: KernelLaunch, timeout: float) -> None:
    """Make a launch from a file, and stop it when the time limit is reached.

    Args:
        launch: The launch. If its run has a time limit for launches, that limit is used.
        timeout: Seconds after which the launch is stopped; 0 for no limit.

    Raises:
        KernelError: The time limit was reached (kind `timeout`).
        TtoolsError: The launch fails, as described for `make_launch`.
    """
    try:
        make_launch(launch.limited(timeout or None))
    except KernelError as error:
        if error.kind == "timeout":
            error.message += f"; its grid is {tuple(launch.grid)}"
            error.help = (
                f"a launch loaded from a file is limited to {DEFAULT_TIMEOUT:g} s by default; "
                "change this with --timeout SECONDS (`timeout=` in Python), or use 0 for no limit"
            )
        raise
