"""Reads Proton's files (trees as JSON or MessagePack, and traces) into one tree of frames."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ttools.core.errors import UsageError, file_errors
from ttools.profiler.gpu.proton_file import documents

#: The value of a metric; metrics of instrumented kernels are vectors.
Number: TypeAlias = "float | tuple[float, ...]"

#: Entries among a node's metrics that are properties and therefore cannot be added up.
PROPERTIES = ("device_id", "device_type", "name", "type")
#: The maximum number of levels: functions here recurse with up to three calls per level, and Python
#: allows 1,000 nested calls.
_DEEPEST = 200
_TOO_DEEP = "`{}` is nested too deeply to be read"
_METADATA = "__proton_launch_metadata"
_UNIT = re.compile(r"\s*\((?!exc\)|inc\))(\w+)\)")
_EXCLUSIVE = re.compile(r"\s*\(exc\)$")
#: The number of each unit in a second.
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


@dataclass
class Frame:
    """A node of a profile.

    Attributes:
        name: Name of the scope, function or kernel.
        own: Metrics of the node itself, excluding its descendants; times are in seconds.
        local: Names of metrics that exclude descendants.
        device: Kind and number of the device, such as `CUDA`, `0`; empty for scopes.
    """

    name: str
    own: dict[str, Number] = field(default_factory=dict)
    local: set[str] = field(default_factory=set)
    device: tuple[str, str] | tuple[()] = ()
    children: list[Frame] = field(default_factory=list)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Frame]]:
        """Yield this node and all of its descendants with their paths, parents first."""
        here = (*path, self.name)
        yield here, self
        for child in self.children:
            yield from child.walk(here)

    def total(self, metric: str) -> Number | None:
        """Return the sum of a metric over this node and its descendants; None if no node has it."""
        value = self.own.get(metric)
        if metric in self.local:
            return value
        for child in self.children:
            value = plus(value, child.total(metric) if metric not in child.local else None)
        return value


@dataclass(frozen=True)
class ProtonProfile:
    """The contents of a Proton file.

    Attributes:
        devices: Properties of each device, by kind and number.
    """

    name: str
    root: Frame
    devices: Mapping[tuple[str, str], Mapping[str, Any]]

    @property
    def metrics(self) -> list[str]:
        """Return the names of all nodes' metrics, in the order of the file."""
        return list(dict.fromkeys(name for _, frame in self.root.walk() for name in frame.own))


def read(path: Path) -> ProtonProfile:
    """Return the contents of a Proton file: `.hatchet`, `.hatchet_msgpack` or `.chrome_trace`.

    The format is recognised by the contents; the name of the file does not matter.

    Raises:
        UsageError: The file cannot be read, or was not written by Proton.
    """
    with file_errors(f"read `{path}`"):
        raw = path.read_bytes()
    try:
        is_json = raw[:1] in (b"[", b"{", b" ", b"\n")
        data, *more = documents(raw.decode("utf-8")) if is_json else [msgspec.msgpack.decode(raw)]
    except ValueError as error:
        raise UsageError(f"`{path}` is neither JSON nor MessagePack: {error}") from error
    except RecursionError as error:
        raise UsageError(_TOO_DEEP.format(path)) from error
    events = [_events(document) for document in (data, *more)]
    if all(part is not None for part in events):
        return ProtonProfile(
            path.name, _of_trace([event for part in events for event in part or ()]), {}
        )
    if isinstance(data, list) and all(isinstance(node, Mapping) for node in data):
        if _depth(data) > _DEEPEST:
            raise UsageError(_TOO_DEEP.format(path))
        return _of_trees(path.name, data)
    written = isinstance(data, Mapping) and str(data.get("schema", "")).startswith(
        "ttools.profile/"
    )
    hint = "; it is a profile of ttools: use `ttools profile compare`" if written else ""
    raise UsageError(f"`{path}` is neither a tree nor a trace that Proton wrote{hint}")


def _depth(nodes: list[Any]) -> int:
    """Return the number of levels, which is only counted until it exceeds the limit."""
    depth = 0
    while nodes and depth <= _DEEPEST:
        lists = (node.get("children") for node in nodes if isinstance(node, Mapping))
        nodes = [child for below in lists if isinstance(below, list) for child in below]
        depth += 1
    return depth


def plus(left: Number | None, right: Number | None) -> Number | None:
    """Return the sum of two values, either of which may be None; None if their lengths differ."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return tuple(a + b for a, b in zip(left, right, strict=True))
    if isinstance(left, tuple) or isinstance(right, tuple):
        return None
    return left + right


# ---- trees


def _of_trees(name: str, data: list[Any]) -> ProtonProfile:
    trees = [entry for entry in data if "frame" in entry]
    others = [entry for entry in data if "frame" not in entry]
    devices = {
        (str(kind), str(number)): facts
        for other in others
        for kind, numbered in other.items()
        if isinstance(numbered, Mapping)
        for number, facts in numbered.items()
        if isinstance(facts, Mapping)
    }
    roots = [frame for entry in trees if (frame := _frame(entry)) is not None]
    root = roots[0] if len(roots) == 1 else Frame("ROOT", children=roots)
    return ProtonProfile(name, root, devices)


def _frame(node: Any) -> Frame | None:
    """Return a node as a frame; None for Proton's measurements of itself."""
    if not isinstance(node, Mapping):
        return None
    described = node.get("frame")
    name = str(described.get("name", "")) if isinstance(described, Mapping) else ""
    if name.split(":")[0] == _METADATA:
        return None
    frame = Frame(name or "(no name)")
    metrics = node.get("metrics")
    metrics = metrics if isinstance(metrics, Mapping) else {}
    if "device_id" in metrics:
        frame.device = (str(metrics.get("device_type", "")), str(metrics["device_id"]))
    for raw, value in metrics.items():
        number = _number(value)
        if raw not in PROPERTIES and number is not None:
            _add(frame, str(raw), number)
    children = node.get("children")
    below = (_frame(child) for child in (children if isinstance(children, list) else ()))
    frame.children = [child for child in below if child is not None]
    return frame


def _add(frame: Frame, raw: str, value: Number) -> None:
    plain, marks = _EXCLUSIVE.subn("", raw)
    unit = _UNIT.search(plain)
    many = _PER_SECOND.get(unit[1]) if unit else None
    name = (_UNIT.sub("", plain) if many else plain).strip()
    if many:
        value = _divided(value, many)
    frame.own[name] = value
    if marks:
        frame.local.add(name)


def _divided(value: Number, by: float) -> Number:
    return tuple(v / by for v in value) if isinstance(value, tuple) else value / by


def _number(value: Any) -> Number | None:
    if isinstance(value, (list, tuple)):
        numbers = [_number(item) for item in value]
        plain = [number for number in numbers if isinstance(number, float)]
        return tuple(plain) if len(plain) == len(numbers) else None
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return None


# ---- traces


def _events(document: Any) -> list[Any] | None:
    """Return the events of one document of a trace; None if it is not a trace."""
    events = document.get("traceEvents") if isinstance(document, Mapping) else None
    return events if isinstance(events, list) else None


def _of_trace(events: list[Any]) -> Frame:
    complete = [e for e in events if isinstance(e, Mapping) and e.get("ph") == "X"]
    kernels = [event for event in complete if event.get("cat") == "kernel"]
    root = Frame("ROOT")
    for event in kernels or complete:
        details = event.get("args")
        details = details if isinstance(details, Mapping) else {}
        stack = details.get("call_stack")
        stack = stack if isinstance(stack, list) else ()
        name = str(event.get("name", "(no name)"))
        frame = root
        for scope in [*(str(s) for s in stack if str(s) not in ("ROOT", name)), name]:
            frame = _child(frame, scope)
        seconds = _number(event.get("dur"))
        duration = seconds / 1e6 if isinstance(seconds, float) else 0.0
        frame.own["time"] = plus(frame.own.get("time"), duration) or 0.0
        frame.own["count"] = plus(frame.own.get("count"), 1.0) or 0.0
        for metric in ("flops", "bytes"):
            amount = _number(details.get(metric))
            if amount is not None:
                frame.own[metric] = plus(frame.own.get(metric), amount) or 0.0
    return root


def _child(frame: Frame, name: str) -> Frame:
    for child in frame.children:
        if child.name == name:
            return child
    frame.children.append(Frame(name))
    return frame.children[-1]
