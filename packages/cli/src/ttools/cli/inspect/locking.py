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
    from ttools.core.gpus.targets import Target

    Costs = Callable[[Inspection], LaunchCosts | None]


def map_of_target(target: Target) -> str | None:
    """The device map that makes scripts launch what they would on a target.

    Kernels that loop over their work launch as many programs as there are multiprocessors, which
    here would be as many as this machine has processors. None where the environment says what the
    device is to be, where there is a GPU, or where no GPU with that target is known.
    """
    from ttools.core.configuration import read
    from ttools.core.device_map.mapping import VARIABLE
    from ttools.core.device_map.request import DeviceMap
    from ttools.core.environment import gpu_usable
    from ttools.core.gpus.devices import device_of

    device = device_of(target.name)
    if device is None or target.backend != "cuda" or read(VARIABLE) or gpu_usable():
        return None
    number = int(target.name.removeprefix("sm_"))
    return str(DeviceMap(capability=divmod(number, 10), sms=device.multiprocessors))


def lock_or_check(found: Sequence[Inspection], path: Path, check: bool, costs: Costs) -> int:
    """Does as `--lock` and `--check` say; returns the exit status.

    Args:
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
    from ttools.core.compilation import lock_check
    from ttools.core.compilation.lock import read_lock
    from ttools.core.triton_versions.version import installed_triton

    if not path.exists():
        raise UsageError(f"there is no `{path}`; write it with --lock and without --check")
    lock = read_lock(path)
    result = lock_check.compare(lock, [lock_check.found(each, costs(each)) for each in found])
    for entry in result.unknown:
        say("note", f"{entry.kernel} for {entry.target} is not in {path}, so it is not compared")
    if not result.compared:
        locked = ", ".join(sorted({each.triton for each in lock.kernels})) or "no version"
        raise UsageError(
            f"{path} has none of these kernels as they are specialised now for Triton "
            f"{installed_triton()} (it was written with {locked}); write it again with --lock"
        )
    for each in result.regressions:
        say("error", str(each))
    if not result.regressions:
        compared = f"{result.compared} of {len(found)} compilations"
        say("note", f"{compared} are within the limits of {path}")
    return exit_codes.FINDINGS if result.regressions else exit_codes.OK
