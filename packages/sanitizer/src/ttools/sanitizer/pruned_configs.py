"""Explains findings in configurations that pruning would have removed for the launch.

Triton's autotuner prunes configurations only in the first call with a given key. All later calls
with the same key use the configuration that was chosen then. If pruning depends on an argument that
is not part of the key, a later call runs in a configuration that is wrong for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ttools.core.context_values import bound
from ttools.core.findings.findings import Finding

if TYPE_CHECKING:
    from ttools.interpreter.run.tuned_launch import TunedCall

#: The autotuned call that is running, with the values of the first call with the same key; None if
#: there is no such call.
_call: ContextVar[tuple[TunedCall, Mapping[str, str]] | None] = ContextVar(
    "ttools_pruned_call", default=None
)


class PrunedConfigs:
    """The argument values for which configurations were pruned, by autotuner and key."""

    def __init__(self) -> None:
        self._values: WeakKeyDictionary[Any, dict[object, Mapping[str, str]]] = WeakKeyDictionary()

    @contextmanager
    def tuning(self, call: TunedCall) -> Iterator[None]:
        """Remember the call whose configurations are launched in this context."""
        if getattr(call.tuner, "early_config_prune", None) is None:
            yield
            return
        values = {name: _text(value) for name, value in call.arguments.items()}
        first = self._values.setdefault(call.tuner, {}).setdefault(call.key, values)
        with bound(_call, (call, first)):
            yield


def explained(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a launch with the reason, if known, why its configuration is wrong."""
    current = _call.get()
    if current is None or not any(finding.config for finding in findings):
        return list(findings)
    call, first = current
    changed = [
        name
        for name, value in call.arguments.items()
        if name in first and name not in call.tuner.keys and _text(value) != first[name]
    ]
    # The autotuner compares the values of a key, so only numbers and strings can be part of the
    # key.
    plain = [name for name in changed if not hasattr(call.arguments[name], "shape")]
    changed = plain or changed
    if not changed:
        return list(findings)
    left = [_set_by(config) for config in call.pruned()]
    return [
        finding
        if finding.severity == "note" or finding.config is None or finding.config in left
        else _explained(finding, call, changed, first)
        for finding in findings
    ]


def _explained(
    finding: Finding, call: TunedCall, changed: Sequence[str], first: Mapping[str, str]
) -> Finding:
    key = json.dumps(call.tuner.keys)
    values = " and ".join(f"{name} = {first[name]}" for name in changed)
    names = ", ".join(f"`{name}`" for name in changed)
    verb = "is" if len(changed) == 1 else "are"
    note = (
        "pruning does not leave this configuration for this launch; it was chosen for an earlier "
        f"one with {values}, because {names} {verb} not in key={key}"
    )
    wanted = json.dumps([*call.tuner.keys, *changed])
    advice = f"pass `key={wanted}` to triton.autotune"
    if hasattr(call.arguments[changed[0]], "shape"):
        advice = "pass the size on which pruning depends as a number, and name it in `key`"
    return replace(finding, notes=(note, *finding.notes), help=advice)


def _set_by(config: Any) -> dict[str, Any]:
    return {name: value for name, value in config.all_kwargs().items() if value is not None}


def _text(value: Any) -> str:
    """Return a number, or the shape of a tensor, as text; empty for any other argument."""
    if isinstance(value, (bool, int, float, str)):
        return str(value)
    shape = getattr(value, "shape", None)
    return "" if shape is None else f"shape {tuple(shape)}"
