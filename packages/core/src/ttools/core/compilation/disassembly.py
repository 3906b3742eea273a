"""NVIDIA's binary tools as Triton carries them: machine code as text, and what a binary needs.

Owns the processes. Must not know what is read off their output.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from ttools.core.errors import TtoolsError

_SECONDS = 120


def disassemble(cubin: bytes) -> str:
    """Machine code with the source lines it comes from, as nvdisasm prints it.

    Raises:
        TtoolsError: the tool is not there, or failed.
    """
    listing = _run("nvdisasm", ["-g", "-c"], cubin)
    # Only the code: sections of data follow in the same format.
    return "\n".join(line.rstrip() for line in listing.splitlines() if line.strip())


def resource_usage(cubin: bytes) -> dict[str, int]:
    """Registers of a thread (`REG`), bytes of its `STACK`, static `SHARED` bytes of a block, ….

    Raises:
        TtoolsError: the tool is not there, or failed.
    """
    listing = _run("cuobjdump", ["-res-usage"], cubin)
    usage = re.findall(r"\b([A-Z]+):(\d+)", listing.partition("Function")[2])
    return {name: int(number) for name, number in usage}


def _run(tool: str, options: list[str], cubin: bytes) -> str:
    path = _path(tool)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [path, *options, file.name],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise TtoolsError(f"{path} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _path(tool: str) -> str:
    from triton import knobs

    try:
        return str(Path(getattr(knobs.nvidia, tool).path))
    except (AttributeError, RuntimeError) as error:
        raise TtoolsError(
            f"{tool} is not there: Triton's wheels carry it; else set TRITON_{tool.upper()}_PATH"
        ) from error
