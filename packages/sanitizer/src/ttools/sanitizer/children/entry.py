"""A line of what a child process writes: JSON, as the report is, so that any process may read it.

Owns the form. Must not know who writes and who reads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ttools.core.findings.findings import Finding, TallyEntry

#: A child writes lines to a file of this kind, and what it is doing now to one of the other.
LINES, STATE = ".jsonl", ".state"
#: Bytes of a file of state: how many launches run, then the kernel launched last.
STATE_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process that takes part in a run.

    Attributes:
        began: when it started, in the kernel's ticks: numbers are given again.
        daemon: whether whoever started it may end it by a signal, as pools of `multiprocessing`
            and pytest-xdist do.
    """

    pid: int
    began: int
    daemon: bool = False


class Entry(msgspec.Struct, omit_defaults=True):
    """One line; only some fields of it are there.

    Attributes:
        member: who writes; the first line.
        findings: new ones.
        launches: all so far.
        warnings: all so far.
        ended: the process ends in an orderly way.
        unreadable: why the line is none, of one that was read.
    """

    member: Member | None = None
    findings: list[Finding] | None = None
    launches: list[TallyEntry] | None = None
    warnings: list[str] | None = None
    ended: bool = False
    unreadable: str | None = None


_decoder = msgspec.json.Decoder(Entry)


def encoded(entry: Entry) -> bytes:
    """The line, with its end."""
    return msgspec.json.encode(entry, enc_hook=_plain) + b"\n"


def _plain(value: Any) -> Any:
    """What JSON has for a value of another type: numbers of NumPy are numbers."""
    item = getattr(value, "item", None)
    return str(value) if item is None else item()


def entries(path: Path) -> list[Entry]:
    """The lines of a file, but for a last one that its writer did not get to finish."""
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


def began(pid: int) -> int | None:
    """When a process started, in ticks; None if there is none, or if only its number is left."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def this_member() -> Member:
    """This process."""
    import multiprocessing

    pid = os.getpid()
    daemon = multiprocessing.current_process().daemon or "PYTEST_XDIST_WORKER" in os.environ
    return Member(pid=pid, began=began(pid) or 0, daemon=bool(daemon))
