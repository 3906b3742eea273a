"""Replays the launches of a record and shows the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ttools.cli import exit_codes
from ttools.cli.ttir import show_outputs


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The launches of a record."""

    path: str

    def __str__(self) -> str:
        return self.path


def run_replay(
    work: Replay, dump: Path | None = None, quiet: bool = False, timeout: float | None = None
) -> int:
    """Replay the launches and save or show their tensors; return the exit status.

    Args:
        dump: File for the tensors; without it they are listed on standard output.
        quiet: If True, tensors are not listed.
        timeout: Time limit of a launch in seconds; None for the default, 0 for no limit.

    Raises:
        UsageError: The file is not a record, or `dump` cannot be written.
    """
    from ttools.interpreter.records.replay import replay
    from ttools.interpreter.records.time_limit import DEFAULT_TIMEOUT

    replayed = replay(work.path, DEFAULT_TIMEOUT if timeout is None else timeout)
    if dump is not None:
        several = len(replayed) > 1
        saved = {
            f"{number}.{name}" if several else name: array
            for number, result in enumerate(replayed)
            for name, array in result.tensors.items()
        }
        show_outputs(saved, dump, quiet)
        return exit_codes.OK
    for result in replayed:
        spec = result.launch.spec
        site = f", launched from {spec.site.line}" if spec.site.line else ""
        title = f"{spec.kernel}, grid {spec.grid}{site}"
        show_outputs(result.tensors, None, quiet, title)
    return exit_codes.OK
