"""The worker process, which passes inputs to one reader and classifies the outcomes.

A reader may make the process die or hang; the parent detects that.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import sys
import tempfile
import traceback
from pathlib import Path
from typing import cast

from tools.fuzz_readers.readers import READERS, Mutator, Reader
from tools.harness import requests

#: Limit of a worker's address space; allocations beyond it fail.
MEMORY_BYTES = 12 << 30
#: Outcomes that are correct; all others are defects.
RIGHTS = ("accepted", "refused", "unsupported")


def outcome_of(reader: Reader, path: Path, number: int) -> tuple[str, str]:
    """Return the outcome of a reader for a file, and the text that shows a defect."""
    from ttools.cli import exit_codes
    from ttools.core.errors import TtoolsError, UnsupportedError

    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = reader.read(path, number) or exit_codes.OK
            message = errors.getvalue()
        except TtoolsError as error:
            status, message = exit_codes.of_error(error), str(error)
            if isinstance(error, UnsupportedError):
                return "unsupported", message
        except Exception:  # noqa: BLE001 - any exception is a defect to report
            return "traceback", traceback.format_exc()
    if "Traceback (most recent call last)" in message:
        return "traceback", message
    if status in (exit_codes.OK, exit_codes.FINDINGS):
        return "accepted", ""
    if status == exit_codes.USAGE:
        return ("refused", "") if message.strip() else ("refused without a message", "")
    unsupported = status == exit_codes.TOOL_FAILURE and "unsupported: " in message
    return ("unsupported" if unsupported else f"exit {status}"), message


def serve(name: str, mutator: Mutator, seed: int) -> None:
    """Pass inputs to a reader, for each number that the parent sends.

    Args:
        name: Name of the reader.
        mutator: Kind of change that is made to the inputs.
        seed: Seed of the inputs.
    """
    numbers, send = requests()
    os.environ.update(TTOOLS_CACHE="off", TTOOLS_OPT="0", TTOOLS_QUIET="1", COLUMNS="200")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reader = READERS[name]
    valid = reader.seeds()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        path = Path(folder, f"input{reader.suffix}")
        for number in numbers:
            path.write_bytes(reader.inputs(valid, number, seed, mutator))
            outcome, shown = outcome_of(reader, path, number)
            send((outcome, shown[-3000:]))


if __name__ == "__main__":
    serve(sys.argv[1], cast("Mutator", sys.argv[2]), int(sys.argv[3]))
