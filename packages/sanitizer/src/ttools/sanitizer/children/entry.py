"""File format of the reports of child processes: one JSON object per line.

A child process writes entries to a file of its own, and the parent process reads them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ttools.core.findings.findings import Finding, TallyEntry

#: Suffixes of a child's two files: one contains the entries, the other the running launch.
LINES, STATE = ".jsonl", ".state"
#: Size of a state file in bytes. The first byte is the number of running launches; it is followed
#: by the name of the kernel that was launched last.
STATE_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process that takes part in a run.

    Attributes:
        pid: Process id of the process.
        began: Start time in clock ticks since boot. It distinguishes processes whose id was reused.
        daemon: True if the parent may terminate the process with a signal, as pools of
            `multiprocessing` and pytest-xdist do.
    """

    pid: int
    began: int
    daemon: bool = False


class Entry(msgspec.Struct, omit_defaults=True):
    """One line of a file of entries; most of its fields are absent.

    Attributes:
        member: The process that writes the file; only in the first line.
        findings: Findings since the previous entry with findings.
        launches: Numbers of all launches so far; replaces the value of earlier lines.
        warnings: Warnings so far; replaces the value of earlier lines.
        ended: True in the last line of a process that ends normally.
        unreadable: Error message for a line that could not be decoded; set only when a file is
            read.
    """

    member: Member | None = None
    findings: list[Finding] | None = None
    launches: list[TallyEntry] | None = None
    warnings: list[str] | None = None
    ended: bool = False
    unreadable: str | None = None


_decoder = msgspec.json.Decoder(Entry)


def encoded(entry: Entry) -> bytes:
    """Return an entry as a line of JSON with its line feed."""
    return msgspec.json.encode(entry, enc_hook=_plain) + b"\n"


def _plain(value: Any) -> Any:
    """Convert a value that has no JSON type: NumPy scalars to numbers, other values to strings."""
    item = getattr(value, "item", None)
    return str(value) if item is None else item()


def entries(path: Path) -> list[Entry]:
    """Return the entries of a file; an incomplete last line is ignored."""
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [_decoded(line) for line in lines]


def _decoded(line: bytes) -> Entry:
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError as error:
        return Entry(unreadable=str(error))


def start_time(pid: int) -> int | None:
    """Return the start time of a process in ticks, or None if it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def this_member() -> Member:
    """Return the description of the current process."""
    import multiprocessing

    pid = os.getpid()
    daemon = multiprocessing.current_process().daemon or "PYTEST_XDIST_WORKER" in os.environ
    return Member(pid=pid, began=start_time(pid) or 0, daemon=bool(daemon))
