"""Reports of accesses outside known memory, which were skipped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.core import configuration
from ttools.core.location import SourceLocation
from ttools.interpreter.run.notices import announce_skipped

if TYPE_CHECKING:
    from ttools.interpreter.runtime.monitor import Count

#: The nouns for accesses in messages, keyed by the kind of the access site.
_NOUNS = {"load": "loads", "store": "stores", "atomic": "atomic operations"}


def unsafe_from_environment() -> bool:
    """Return whether `TTOOLS_UNSAFE` disables the guards for runs without an explicit setting."""
    return configuration.read("TTOOLS_UNSAFE") == "1"


@dataclass(frozen=True)
class SkippedAccess:
    """Accesses of one line outside known memory, which were skipped.

    Attributes:
        kernel: Name of the kernel.
        location: The line, or None if the kernel has none.
        kind: `load`, `store` or `atomic`.
        misaligned: True if the accesses were inside a tensor but not aligned.
        lanes: Number of skipped accesses.
        programs: Number of programs that made them.
    """

    kernel: str
    location: SourceLocation | None
    kind: str
    misaligned: bool
    lanes: int
    programs: int

    def describe(self, target: str | None = None) -> str:
        """Return a sentence with the kernel, line and count, and the command that lists accesses.

        Args:
            target: Argument of the command; by default the script of this process.
        """
        what = "misaligned " if self.misaligned else ""
        noun = _NOUNS.get(self.kind, self.kind)
        if self.lanes == 1:
            noun = noun.removesuffix("s")
        where = f" at {self.location.file}:{self.location.line}" if self.location else ""
        why = "" if self.misaligned else " outside its tensors"
        were = "was" if self.lanes == 1 else "were"
        command = " ".join(filter(None, ("ttools sanitize", target or _script())))
        return (
            f"kernel `{self.kernel}`{where}: {self.lanes:,} {what}{noun}{why} {were} skipped "
            f"in the first launch with such accesses; `{command}` lists them"
        )


def skipped_accesses(kernel: str, counts: Iterable[Count]) -> list[SkippedAccess]:
    """Return the accesses that the guards of a launch have skipped."""
    return [
        SkippedAccess(
            kernel,
            count.witness.site.location,
            count.witness.site.kind,
            count.witness.test == "misaligned",
            count.lanes,
            count.programs,
        )
        for count in counts
        if count.witness.site.kind in _NOUNS
    ]


def announce(skipped: Sequence[SkippedAccess], target: str | None = None) -> None:
    """Report skipped accesses on standard error, each line of a kernel once per process."""
    for access in skipped:
        announce_skipped(
            (access.kernel, access.location, access.kind, access.misaligned),
            access.describe(target),
        )


def _script() -> str:
    """Return the script or module that this process runs, as an argument of a command."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None:
        return f"-m {spec.name.removesuffix('.__main__')}"
    path = sys.argv[0] if sys.argv else ""
    return path if path.endswith(".py") and Path(path).is_file() else ""
