"""Finds autotuned launches whose repetition changes their inputs.

To time a configuration, Triton's autotuner launches it many times, and between launches it restores
only the arguments that `restore_value` and `reset_to_zero` name. A kernel that adds to its output,
for example, then adds many times. The sanitizer runs a configuration only once, which does not
reveal this defect. Therefore, a launch that the autotuner would time is repeated, and its inputs
are compared. Afterwards, memory is restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ttools.core.findings.findings import Finding
from ttools.core.triton_versions import restored_arguments
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.checks.check import SHARED_KINDS
from ttools.sanitizer.checks.unwritten_output import stores
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.replay import undoing
from ttools.sanitizer.passes import undefined

if TYPE_CHECKING:
    from ttools.interpreter.run.tuned_launch import TunedCall

#: Maximum total size of the storages that are copied for the comparison, in bytes.
_LARGEST = 1 << 30
_KIND = "not_restored"

#: The current launch of an autotuner, until the first of its configurations has run.
tuned_launch: ContextVar[TunedCall | None] = ContextVar("ttools_tuned_launch", default=None)


class Restoring:
    """Checks the first launch for each tuning key of an autotuner."""

    def __init__(self) -> None:
        self._keys: WeakKeyDictionary[Any, set[object]] = WeakKeyDictionary()

    @contextmanager
    def tuning(self, launch: TunedCall) -> Iterator[bool]:
        """Mark the launches made in this context as configurations of one autotuned launch.

        The context manager yields True if Triton's autotuner would time the configurations.
        """
        keys = self._keys.setdefault(launch.tuner, set())
        is_timed = len(launch.configs) > 1 and launch.key not in keys
        keys.add(launch.key)
        token = tuned_launch.set(launch if is_timed else None)
        try:
            yield is_timed
        finally:
            tuned_launch.reset(token)

    def findings(self, checked: CheckedLaunch, tuned: TunedCall) -> list[Finding]:
        """Return the findings for the first launch of an autotuned launch, which has run."""
        tuned_launch.set(None)
        if checked.hung or checked.kernel.waits:
            return []
        if any(finding.severity == "error" for finding in checked.findings):
            return []  # the change may be an effect of the error
        restored = restored_arguments(tuned.tuner)
        if restored is None:
            return []
        spec, places = checked.spec, checked.kernel.fact(stores)
        count = len(tuned.configs)
        changed = _changed_again(checked, restored)
        help_line = _help(tuned.tuner, [_base_name(spec.names[index]) for index in changed])
        return [
            Finding(
                kind=_KIND,
                check="configs",
                severity=SHARED_KINDS[_KIND].severity,
                message=f"each launch reads and changes `{spec.names[index]}`, and the tuner "
                f"launches many times to time {count} configurations",
                kernel=spec.kernel,
                location=places.get(index),
                argument=spec.argument(index),
                launch=spec.site.line,
                config=spec.site.config,
                help=help_line,
            )
            for index in changed
        ]


def _help(tuner: Any, changed: Sequence[str]) -> str:
    """Return an argument of `triton.autotune` that also restores the changed tensors.

    `reset_to_zero` is never advised: a tensor that contains only zeros before the first launch,
    such as a new momentum, may contain other values when a later launch is tuned.

    Args:
        tuner: The autotuner of the kernel.
        changed: Names of the additional parameters that the autotuner must restore.
    """
    names = list(dict.fromkeys([*tuner.restore_value, *changed]))
    return f"pass `restore_value={json.dumps(names)}` to triton.autotune"


def _base_name(name: str) -> str:
    """Return the name of the parameter to which an argument, such as `x[0]`, belongs."""
    return name.partition("[")[0].partition(".")[0]


def _changed_again(checked: CheckedLaunch, restored: frozenset[str]) -> list[int]:
    """Repeat a launch; return the parameters whose memory it reads and has changed again.

    Args:
        checked: The launch, which has run once.
        restored: Names of the parameters that the autotuner restores.

    Returns:
        Indices of parameters, at most one for each storage.
    """
    launch, regions = checked.launch, checked.regions
    written = launch.written_storages
    if written is None or sum(end - start for start, end in written) > _LARGEST:
        return []
    names = enumerate(map(_base_name, checked.spec.names))
    put_back = {regions[n].storage for n, name in names if name in restored}
    read = {regions[n].storage for n in checked.kernel.fact(undefined.reads)} - put_back
    candidates = {
        regions[n].storage: n
        for n in sorted(launch.kernel.variants.effects.written, reverse=True)
        if regions[n].storage in read and regions[n].storage in written
    }
    copies = {storage: memory(*storage).copy() for storage in candidates}
    changed: list[int] = []
    if copies:
        with undoing(launch, written):
            checked.execute(launch.run.launch_options)
            changed = [
                candidates[storage]
                for storage, copy in copies.items()
                if not np.array_equal(memory(*storage), copy)
            ]
    return sorted(changed)
