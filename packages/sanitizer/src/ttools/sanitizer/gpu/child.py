"""The child process that a tool watches: runs the user's program and logs its launches.

    python -m ttools.sanitizer.gpu.child FOLDER KIND NAME [ARGUMENT…]

The exit status is in the log, too, since compute-sanitizer does not always pass it on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.script import Target, run_target
from ttools.core.triton_versions import allocate_by_torch, gsan_memory
from ttools.sanitizer.gpu.launch_log import LogWriter
from ttools.sanitizer.gpu.launch_watch import RunLogger, wait_for_gpu


def main(arguments: Sequence[str]) -> int:
    """Run a target as `python` would and return its status."""
    folder, kind, name, *script_arguments = arguments
    log = LogWriter(Path(folder))
    RunLogger(log).install()
    target = Target(kind=kind, name=name, arguments=tuple(script_arguments))  # type: ignore[arg-type]
    mode = os.environ.get("TRITON_INSTRUMENTATION_MODE")
    if mode:
        allocate_by_torch()
    memory = gsan_memory() if mode == "gsan" else None
    try:
        with memory or nullcontext():
            status = run_target(target)
    except TtoolsError as error:
        log.refused(str(error), misuse=isinstance(error, UsageError))
        return 1
    wait_for_gpu()
    log.ended(status)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
