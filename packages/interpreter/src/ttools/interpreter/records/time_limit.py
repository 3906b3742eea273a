"""A time limit for launches that are made from files.

A file may be untrusted input: its grid may be huge and its loops endless, and nobody who opens it
has chosen either. So such a launch has a limit by default, unlike one of a script.
"""

from __future__ import annotations

from ttools.core.errors import KernelError
from ttools.interpreter.run.interpretation import Run
from ttools.interpreter.run.launching import LaunchableKernel, LaunchArguments, make_launch
from ttools.interpreter.runtime.launch_options import LaunchOptions

#: Seconds that a launch of a file may take where nobody says otherwise; `sanitize` has the same.
DEFAULT_TIMEOUT = 600.0


def make_limited_launch(
    kernel: LaunchableKernel, arguments: LaunchArguments, run: Run | None, timeout: float
) -> None:
    """Makes a launch, and stops it when its time is over.

    Args:
        kernel: The kernel of a file.
        arguments: The arguments of the launch; takes the limit if there is no run.
        run: The run that the launch belongs to. A limit that it has for all launches comes first.
        timeout: Seconds after which the launch is stopped; 0 for any time.

    Raises:
        KernelError: The time was over (kind `timeout`).
        TtoolsError: See `make_launch`.
    """
    options = LaunchOptions(seconds=timeout or None)
    if run is None:
        arguments.options = options
    else:
        run = run.limited(options.seconds)
    try:
        make_launch(kernel, arguments, run)
    except KernelError as error:
        if error.kind == "timeout":
            error.message += f"; its grid is {tuple(arguments.grid)}"
            error.help = (
                f"a launch of a file may take {DEFAULT_TIMEOUT:g} s by default; --timeout SECONDS "
                "(`timeout=` in Python) changes this limit, 0 removes it"
            )
        raise
