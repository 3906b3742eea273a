"""Launches as a tree of nested scopes or Python functions, with kernels as leaves.

Times, counts and the figures that the program reports for its scopes add up along the tree.
"""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttools.core.errors import UsageError
from ttools.core.reports.report import config_text
from ttools.profiler.run.launch_metrics import flops_of
from ttools.profiler.run.session import Kind, Sample


@dataclass
class Node:
    """A scope with its contents, or a kernel.

    Attributes:
        name: Name of the scope, function, kernel or operation.
        seconds: Time of all launches in this node and its descendants.
        launches: Number of launches in this node and its descendants.
        flops: Operations of all launches in this node and its descendants; None if the operations
            of any launch are unknown.
        bytes: Requested bytes of all launches in this node and its descendants; None if the bytes
            of any launch are unknown.
        metrics: Sums of figures that the program reported for the scope; these replace counts.
        children: Child nodes by name, in the order of their first launches.
    """

    name: str
    kind: Kind | Literal["scope"] = "scope"
    seconds: float = 0.0
    launches: int = 0
    flops: float | None = 0.0
    bytes: float | None = 0.0
    metrics: Counter[str] = field(default_factory=Counter)
    children: dict[str, Node] = field(default_factory=dict)

    def child(self, name: str) -> Node:
        """Return the child of the given name; create it if there is none."""
        child = self.children.get(name)
        if child is None:
            child = self.children[name] = Node(name)
        return child

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """Yield this node and all of its descendants with their depths, parents first."""
        yield depth, self
        for child in self.children.values():
            yield from child.walk(depth + 1)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "seconds": self.seconds,
            "launches": self.launches,
            "flops": self.flops,
            "bytes": self.bytes,
            "metrics": dict(self.metrics),
            "children": [child.as_dict() for child in self.children.values()],
        }

    def as_literal(self) -> dict[str, Any]:
        """Return the node as an argument for `hatchet.GraphFrame.from_literal`."""
        below = sum(child.seconds for child in self.children.values())
        metrics: dict[str, float | None] = {
            "time": self.seconds - below,
            "time (inc)": self.seconds,
            "count (inc)": self.launches,
            "flops (inc)": self.flops,
            "bytes (inc)": self.bytes,
        }
        metrics |= {f"{n} (inc)": value for n, value in self.metrics.items()}
        numbers = {name: float("nan") if v is None else float(v) for name, v in metrics.items()}
        return {
            "frame": {"name": self.name, "type": "function" if self.kind == "scope" else "kernel"},
            "metrics": numbers,
            "children": [child.as_literal() for child in self.children.values()],
        }


def graph_frame(root: Node) -> Any:
    """Return a tree as a `hatchet.GraphFrame` (llnl-hatchet), times in seconds.

    Raises:
        UsageError: llnl-hatchet is not installed, or PyPI's other `hatchet` hides it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hatchet's use of pandas and of escape sequences warns
        try:
            kind = importlib.import_module("hatchet").GraphFrame
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"this needs llnl-hatchet, which cannot be imported: {error}; "
                "install it with `pip install triton-ttools[hatchet]`"
            ) from error
        return kind.from_literal([root.as_literal()])


def call_tree(
    samples: Sequence[Sample],
    scopes: Sequence[tuple[tuple[str, ...], Mapping[str, float]]] = (),
) -> Node:
    """Return the call tree of a run.

    Args:
        samples: The launches of the run, with the scopes around them.
        scopes: Figures that the program reported for its scopes, see `Session.scopes`.
    """
    root = Node("run")
    for sample in samples:
        config = config_text(sample.config)
        path = [root]
        for name in sample.stack:
            path.append(path[-1].child(name))
        path.append(path[-1].child(f"{sample.kernel} [{config}]" if config else sample.kernel))
        path[-1].kind = sample.kind
        flops, moved = work_of(sample)
        for node in path:
            node.seconds += sample.seconds
            node.launches += sample.launches
            node.flops = _plus(node.flops, flops)
            node.bytes = _plus(node.bytes, moved)
    for names, metrics in scopes:
        node = root
        for name in names:
            node = node.child(name)
        for name, value in metrics.items():
            node.metrics[name] += value  # type: ignore[assignment]
    _prefer_reported(root)
    return root


def work_of(sample: Sample) -> tuple[float | None, float | None]:
    """Return the operations and bytes of a sample, as its kernel reports them, else as counted."""
    counts, metrics = sample.counts, sample.metrics
    flops = flops_of(metrics)
    moved = metrics.get("bytes")
    if counts is not None:
        flops = counts.total.flops * sample.launches if flops is None else flops
        moved = counts.total.bytes * sample.launches if moved is None else moved
    return flops, moved


def _plus(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None else total + more


def _prefer_reported(node: Node) -> None:
    """Replace counts by the figures that the program reported for scopes, and update the sums."""
    for child in node.children.values():
        _prefer_reported(child)
    if any(_is_reported(below) for _, below in node.walk() if below is not node):
        node.flops, node.bytes = 0.0, 0.0
        for child in node.children.values():
            node.flops = _plus(node.flops, child.flops)
            node.bytes = _plus(node.bytes, child.bytes)
    reported = flops_of(node.metrics)
    node.flops = node.flops if reported is None else reported
    node.bytes = node.metrics.get("bytes", node.bytes)


def _is_reported(node: Node) -> bool:
    return "bytes" in node.metrics or flops_of(node.metrics) is not None
