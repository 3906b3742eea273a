"""Reads the times of kernels from Proton's files: traces, and trees of sums."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ttools.core.errors import UsageError
from ttools.profiler.run.session import Kind

#: Proton's names for the outermost node of a tree, and for frames that Proton adds.
_ROOT = "ROOT"
_OWN = "__proton_launch_metadata"


@dataclass(frozen=True)
class KernelTime:
    """The time of a launch on the GPU, or of several launches that were timed together.

    Attributes:
        kernel: Name of the kernel, or of a copy or fill.
        begin: Start in seconds on the file's clock.
        seconds: Duration of the launch, or total duration of the launches.
        lane: Name of the device and stream on which the kernel ran.
        stack: Scopes or functions around the launch, outermost first; empty if the file contains
            none.
        launches: Number of launches that were timed together.
        kind: Kind of operation; Proton's file contains kernels only.
        nbytes: Number of bytes of a copy or fill, or total number of several together.
    """

    kernel: str
    begin: float
    seconds: float
    lane: str = ""
    stack: tuple[str, ...] = ()
    launches: int = 1
    kind: Kind = "kernel"
    nbytes: int | None = None


def kernel_times(raw: bytes) -> list[KernelTime]:
    """Return the launches of a trace in the order of their starts, or the kernels of a tree.

    Args:
        raw: Contents of Proton's file; a trace is empty if nothing was launched.

    Raises:
        UsageError: The file is neither a trace nor a tree.
    """
    if not raw.strip():
        return []
    try:
        data = documents(raw.decode("utf-8"))
    except ValueError as error:
        raise UsageError(f"cannot read Proton's file: {error}") from error
    if all(isinstance(document, dict) for document in data):
        times = (time for document in data for time in _of_trace(document.get("traceEvents", [])))
        return sorted(times, key=lambda time: time.begin)
    if isinstance(data[0], list):
        return [time for root in data[0][:1] for time in _of_tree(root, ())]
    raise UsageError("Proton's file is neither a trace nor a tree")


def documents(text: str) -> list[Any]:
    """Return the JSON documents of a file, at least one; a trace has one document per stream.

    Raises:
        ValueError: The text is not JSON.
    """
    decoder, at = json.JSONDecoder(), 0
    values: list[Any] = []
    text = text.strip()
    while at < len(text) or not values:
        value, at = decoder.raw_decode(text, at)
        values.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return values


def _of_trace(events: Any) -> Iterator[KernelTime]:
    named = {
        (event.get("pid"), event.get("tid")): str(event["args"]["name"])
        for event in events
        if isinstance(event, dict) and event.get("name") == "thread_name"
    }
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X" or event.get("cat") != "kernel":
            continue
        name = str(event["name"])
        track = (event.get("pid"), event.get("tid"))
        details = event.get("args") or {}
        stack = [str(frame) for frame in details.get("call_stack", ())]
        # The kernel itself may be part of the stack.
        yield KernelTime(
            name,
            float(event["ts"]) / 1e6,
            float(event["dur"]) / 1e6,
            named.get(track) or " ".join(str(part) for part in track if part is not None),
            tuple(frame for frame in stack if frame not in (_ROOT, name)),
        )


def _of_tree(node: Any, stack: tuple[str, ...]) -> Iterator[KernelTime]:
    if not isinstance(node, Mapping):
        return
    name = str(node.get("frame", {}).get("name", ""))
    if name.startswith(_OWN):
        return
    metrics: Mapping[str, Any] = node.get("metrics", {})
    seconds, count = metrics.get("time (ns)"), metrics.get("count")
    if seconds and count:
        lane = f"device {metrics['device_id']}" if "device_id" in metrics else ""
        yield KernelTime(name, 0.0, float(seconds) / 1e9, lane, stack, int(count))
    below = stack if name == _ROOT else (*stack, name)
    for child in node.get("children", ()):
        yield from _of_tree(child, below)
