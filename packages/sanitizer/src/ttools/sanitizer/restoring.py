"""Autotuned launches that change what they read, while nobody puts it back.

Triton's tuner times each configuration by launching it again and again, and puts back only what
`restore_value` and `reset_to_zero` name. Here a configuration runs once, so that nothing shows. So
a launch that a tuner would time is made a second time, and memory compared. Must not know how
launches are tuned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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

#: Storages larger than this, together, are not copied to be compared.
_LARGEST = 1 << 30
_KIND = "not_restored"

#: The launch of an autotuner that is being made, until the first of its configurations has run.
tuned_launch: ContextVar[TunedCall | None] = ContextVar("ttools_tuned_launch", default=None)


class Restoring:
    """Looks at the first launch for each key of an autotuner."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Any, set[object]] = WeakKeyDictionary()

    @contextmanager
    def tuning(self, launch: TunedCall) -> Iterator[None]:
        """Meanwhile an autotuner's launch is made, in one configuration or all."""
        seen = self._seen.setdefault(launch.tuner, set())
        is_timed = len(launch.configs) > 1 and launch.key not in seen
        seen.add(launch.key)
        token = tuned_launch.set(launch if is_timed else None)
        try:
            yield
        finally:
            tuned_launch.reset(token)

    def findings(self, checked: CheckedLaunch, tuned: TunedCall) -> list[Finding]:
        """What is found of a launch that has run, the first of those that a tuner makes."""
        tuned_launch.set(None)
        if checked.hung or checked.kernel.waits:
            return []
        if any(found.severity == "error" for found in checked.findings):
            return []  # what it leaves may be an effect of that
        restored = restored_arguments(tuned.tuner)
        if restored is None:
            return []
        spec, places = checked.spec, checked.kernel.fact(stores)
        count = len(tuned.configs)
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
                help=SHARED_KINDS[_KIND].help,
            )
            for index in _changed_again(checked, restored)
        ]


def _changed_again(checked: CheckedLaunch, restored: frozenset[str]) -> list[int]:
    """The parameters, one of each storage, that the launch would change if it were made again.

    Args:
        checked: it has run once.
        restored: names of parameters that are put back.
    """
    launch, regions = checked.launch, checked.regions
    written = launch.written_storages
    if written is None or sum(end - start for start, end in written) > _LARGEST:
        return []
    names = (re.match(r"\w*", name) for name in checked.spec.names)
    put_back = {regions[n].storage for n, name in enumerate(names) if name and name[0] in restored}
    read = {regions[n].storage for n in checked.kernel.fact(undefined.reads)} - put_back
    found = {
        regions[n].storage: n
        for n in sorted(launch.kernel.variants.effects.written, reverse=True)
        if regions[n].storage in read and regions[n].storage in written
    }
    copies = {storage: memory(*storage).copy() for storage in found}
    changed: list[int] = []
    if copies:
        with undoing(launch, written):
            checked.execute(launch.run.launch_options)
            changed = [
                found[storage]
                for storage, copy in copies.items()
                if not np.array_equal(memory(*storage), copy)
            ]
    return sorted(changed)
