"""Making the launches of a record again, and showing what comes out."""

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
    """Makes the launches again and saves or shows their tensors; returns the exit status.

    Args:
        dump: where to save the tensors; they are listed on standard output without it.
        quiet: whether not to list them.
        timeout: seconds after which a launch is stopped; None for the default, 0 for any time.

    Raises:
        UsageError: the file is no record, or `dump` cannot be written.
    """
    from ttools.interpreter.records.replay import replay
    from ttools.interpreter.records.time_limit import DEFAULT_TIMEOUT

    made = replay(work.path, DEFAULT_TIMEOUT if timeout is None else timeout)
    if dump is not None:
        several = len(made) > 1
        saved = {
            f"{number}.{name}" if several else name: array
            for number, each in enumerate(made)
            for name, array in each.tensors.items()
        }
        show_outputs(saved, dump, quiet)
        return exit_codes.OK
    for each in made:
        spec = each.launch.spec
        site = f", launched from {spec.site.line}" if spec.site.line else ""
        title = f"{spec.kernel}, grid {spec.grid}{site}"
        show_outputs(each.tensors, None, quiet, title)
    return exit_codes.OK
