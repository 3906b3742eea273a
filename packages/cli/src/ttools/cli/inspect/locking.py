"""`ttools inspect --lock`: what compiled kernels cost, written or compared with what was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli import exit_codes
from ttools.cli.console import say
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.core.compilation.inspection import Inspection
    from ttools.core.compilation.lock import LaunchCosts

    Costs = Callable[[Inspection], LaunchCosts | None]


def lock_or_check(found: Sequence[Inspection], path: Path, check: bool, costs: Costs) -> int:
    """Does as `--lock` and `--check` say; returns the exit status.

    Args:
        found: what was compiled.
        path: of the lock.
        check: whether to compare with it.
        costs: of a launch of each, None where it has none that can be compared.

    Raises:
        UsageError: the lock cannot be read or written, or has none of these kernels.
    """
    from ttools.core.compilation.lock import entry_of, write_lock

    if check:
        return _check(found, path, costs)
    total = write_lock(path, (entry_of(each, costs(each)) for each in found))
    say("note", f"{path} holds {total} {'compilation' if total == 1 else 'compilations'}")
    return exit_codes.OK


def _check(found: Sequence[Inspection], path: Path, costs: Costs) -> int:
    from ttools.core.compilation.lock import compare, read_lock
    from ttools.core.triton_versions.version import installed_triton

    if not path.exists():
        raise UsageError(f"there is no `{path}`; write it with --lock and without --check")
    lock = read_lock(path)
    compared, regressions = 0, []
    for inspection in found:
        worse = compare(lock, inspection, costs(inspection))
        if worse is None:
            name, target = inspection.source.name, inspection.target.name
            say("note", f"{name} for {target} is not in {path}, so it is not compared")
            continue
        compared += 1
        regressions += worse
    if not compared:
        locked = ", ".join(sorted({each.triton for each in lock.kernels})) or "no version"
        raise UsageError(
            f"{path} has none of these kernels as they are specialised now for Triton "
            f"{installed_triton()} (it was written with {locked}); write it again with --lock"
        )
    for each in regressions:
        say("error", str(each))
    if not regressions:
        say("note", f"{compared} of {len(found)} compilations are within the limits of {path}")
    return exit_codes.FINDINGS if regressions else exit_codes.OK
