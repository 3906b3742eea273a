"""The parent's side: the folder of the children's reports, and how it is read.

The folder is removed when its `Folder` object is deleted or the parent process ends.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ttools.core.findings.findings import Finding, TallyEntry
from ttools.sanitizer.children.entry import LINES, STATE, Entry, Member, entries, start_time


@dataclass
class Children:
    """The findings, launches and warnings of all children.

    Attributes:
        findings: Findings of all processes, process by process.
        launches: Tallies of the launches of all processes.
        warnings: Warnings of all processes, without duplicates.
    """

    findings: list[Finding] = field(default_factory=list)
    launches: list[TallyEntry] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, written: Sequence[Entry], state: bytes) -> None:
        """Add the entries of one process.

        Args:
            written: Entries of the process, in order.
            state: Contents of its state file.
        """
        member = next((entry.member for entry in written if entry.member), None)
        if member is None:
            return
        launches: list[TallyEntry] = []
        warnings: list[str] = []
        for entry in written:
            self.findings += entry.findings or []
            launches = launches if entry.launches is None else entry.launches
            warnings = warnings if entry.warnings is None else entry.warnings
            if entry.unreadable is not None:
                self.warnings.append(
                    f"an entry of process {member.pid} is unreadable: {entry.unreadable}"
                )
        self.launches += launches
        ending = [] if any(entry.ended for entry in written) else _ending(member, state)
        self.warnings += [text for text in (*warnings, *ending) if text not in self.warnings]


def _ending(member: Member, state: bytes) -> list[str]:
    """Return the warning about a process that has not ended normally, if any."""
    who = f"process {member.pid}, which the program started,"
    so_far = "its findings until then are in this report"
    runs = start_time(member.pid) == member.began
    if state[:1] not in (b"", b"\0"):
        kernel = state[1:].rstrip(b"\0").decode(errors="replace")
        return [f"{who} {'is' if runs else 'died'} in a launch of `{kernel}`; {so_far}"]
    if member.daemon:
        return []
    return [f"{who} {'still runs' if runs else 'was killed or crashed'}; {so_far}"]


class Folder:
    """The folder to which children of this process write; the first child creates it."""

    def __init__(self) -> None:
        name = f"ttools-children-{os.getpid()}-{secrets.token_hex(8)}"
        self.path = Path(tempfile.gettempdir(), name)
        weakref.finalize(self, _remove, str(self.path), os.getpid())

    def read(self) -> Children:
        """Read what all children have written until now."""
        children = Children()
        if self.path.is_dir():
            for path in sorted(self.path.glob(f"*{LINES}")):
                children.add(entries(path), _bytes(path.with_suffix(STATE)))
        return children


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
