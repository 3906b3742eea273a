"""Runs NVIDIA's binary tools from Triton's wheel and reads cubin files."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from pathlib import Path

from ttools.core.errors import TtoolsError

_SECONDS = 120


def disassemble(cubin: bytes) -> str:
    """Return nvdisasm's output for a cubin, with source lines, including those of inlined calls.

    Raises:
        TtoolsError: The tool is missing or failed.
    """
    listing = _run("nvdisasm", ["-gi", "-c"], cubin)
    # Blank lines separate sections and are dropped.
    return "\n".join(line.rstrip() for line in listing.splitlines() if line.strip())


def code_sections(cubin: bytes) -> dict[str, bytes]:
    """Return the machine code of each function in a cubin, by section name.

    A cubin is a 64-bit ELF file. Reading it directly is a thousand times faster than starting
    nvdisasm, which takes half a second even for a small kernel.
    """
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    # Each section's name offset, content offset, and content length.
    headers = [struct.unpack_from("<I20xQQ", cubin, table + n * size) for n in range(count)]
    texts = cubin[headers[names][1] :]
    named = {
        texts[name : texts.index(b"\0", name)].decode(): cubin[begin : begin + length]
        for name, begin, length in headers
    }
    return {name: code for name, code in named.items() if name.startswith(".text")}


def resource_usage(cubin: bytes) -> dict[str, int]:
    """Return a kernel's resources by name: registers (`REG`), bytes of `STACK` and `SHARED`, ….

    Raises:
        TtoolsError: The tool is missing or failed.
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
            f"{tool} was not found: reinstall Triton, whose wheel contains it, or set "
            f"TRITON_{tool.upper()}_PATH to its path"
        ) from error
