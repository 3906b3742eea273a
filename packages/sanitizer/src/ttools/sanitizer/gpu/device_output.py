"""Parses errors in the output of instrumented kernels.

Triton's modes report errors by device assertions; on AMD's GPUs, the address sanitizer of ROCm
prints its own reports. Both appear among the output of the user's program, so regular expressions
look for them in the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ttools.sanitizer.gpu.output import Frame, Output, Record

_BLOCK = r"block: \[(\d+),(\d+),(\d+)\], thread: \[(\d+),(\d+),(\d+)\]"
_ASSERTION = re.compile(
    rf"^(?P<file>\S.*?):(?P<line>\d+): (?P<function>.+?): {_BLOCK} "
    r"Assertion `(?P<text>.*?)` failed",
    re.MULTILINE,
)
_ADDRESS_ERROR = re.compile(
    r"^==\d+==ERROR: AddressSanitizer: (?P<problem>[\w-]+) on (?:amdgpu )?device \d+.*\n"
    r"(?P<details>(?:.*\n?){0,12})",
    re.MULTILINE,
)
_ACCESS = re.compile(
    r"^\s*(?P<access>READ|WRITE|LOAD|STORE) of size (?P<size>\d+) in workgroup id "
    r"\((\d+),\s*(\d+),\s*(\d+)\)",
    re.MULTILINE,
)
_FRAME = re.compile(
    r"^\s*#0 0x[0-9a-f]+ in (?P<function>.+?)(?: at)? (?P<file>[^\s:]+):(?P<line>\d+)", re.MULTILINE
)
_LANE = re.compile(r"^\s*(?P<lane>\d+) : (?P<address>0x[0-9a-f]+)", re.MULTILINE)
_READS = ("READ", "LOAD")


def read_device_output(text: str) -> Output:
    """Return the errors in the output of a program, in order."""
    records = [*_assertions(text), *_address_errors(text)]
    return Output(records=sorted(records, key=lambda record: record.position))


def _assertions(text: str) -> Iterator[Record]:
    for match in _ASSERTION.finditer(text):
        x, y, z, thread_x, thread_y, thread_z = map(int, match.groups()[3:9])
        yield Record(
            position=match.start(),
            text=match["text"].rstrip("."),
            frame=Frame(match["function"], match["file"], int(match["line"])),
            thread=(thread_x, thread_y, thread_z),
            block=(x, y, z),
        )


def _address_errors(text: str) -> Iterator[Record]:
    for match in _ADDRESS_ERROR.finditer(text):
        details = match["details"]
        access, frame, lane = (pattern.search(details) for pattern in (_ACCESS, _FRAME, _LANE))
        yield Record(
            position=match.start(),
            text=match["problem"],
            space="global",
            access=("read" if access["access"] in _READS else "write") if access else "",
            size=int(access["size"]) if access else 0,
            problem=match["problem"],
            frame=Frame(frame["function"], frame["file"], int(frame["line"])) if frame else None,
            block=(int(access[3]), int(access[4]), int(access[5])) if access else None,
            address=int(lane["address"], 16) if lane else None,
        )
