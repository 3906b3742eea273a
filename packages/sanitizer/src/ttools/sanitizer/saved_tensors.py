"""Finds kernels that overwrite tensors which autograd has saved for a backward pass.

torch's in-place operators increment the version counter of a tensor, so that a backward pass that
needs the earlier values raises an error. A kernel does not increment it unless its caller names the
tensor in `ctx.mark_dirty`, so the backward pass silently uses the new values.

When a backward pass begins, the tensors that the nodes of its graph have saved are compared with
the memory to which earlier launches have stored. Each node has a sequence number, which shows
whether it was created before a launch. A node that was created before the launch kept its tensors
alive, so memory at the same address is the same memory. The tensors of a `torch.autograd.Function`
are saved when its `forward` ends, that is, after the launches that this `forward` makes. These
launches are therefore not compared with the tensors of that node. A launch in `backward` may
overwrite what its own node has saved, unless the graph is retained for another pass. When such a
pass begins, nothing is reported about tensors that still have the values of the earlier pass, for
example because `backward` restores them, or because a mask excluded all stores.
"""

from __future__ import annotations

import sys
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.core.findings.findings import Finding
from ttools.core.patches import Patches
from ttools.interpreter.abi.region import Region, region_of
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.checks.memcheck import Memcheck
from ttools.sanitizer.checks.unwritten_output import stores
from ttools.sanitizer.memory.host_storages import plain_storage, start_of
from ttools.sanitizer.memory.launch_state import tensors_among

if TYPE_CHECKING:
    from ttools.sanitizer.launch.checked import CheckedLaunch

_KIND = "saved_tensor"
#: Maximum number of stores to different tensors, and of checksums of saved tensors, that are
#: remembered; the oldest are forgotten.
_MOST_REMEMBERED = 4096
#: Maximum number of elements of a view with gaps whose addresses are compared one by one.
_MOST_COMPARED = 1 << 24
#: Prefix of the names of a node's attributes that describe its saved tensors.
_RAW = "_raw_saved_"


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """The stores of one launch to one tensor.

    Attributes:
        thread: Identifier of the thread that made the launch.
        sequence: Sequence number that the next node of a graph would have received in this thread.
        region: The elements of the tensor.
        version: Version counter of the tensor at the time of the launch.
        contexts: Identities of the nodes of `torch.autograd.Function` whose `forward` made the
            launch.
        classes: Types of such nodes for which the node itself is not visible on the stack.
        finding: The finding to report; it does not name the node yet.
    """

    thread: int
    sequence: int
    region: Region
    version: int
    contexts: frozenset[int]
    classes: frozenset[type]
    finding: Finding

    def is_after(self, node: Any) -> bool:
        """Return whether the launch was made after a node had saved its tensors."""
        if node._sequence_nr() >= self.sequence or id(node) in self.contexts:
            return False
        return type(node) not in self.classes


class SavedTensors:
    """Tracks the stores of a run to memory that autograd may have saved.

    Args:
        report: Called with each finding when a backward pass begins.
    """

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self._stored: dict[object, _Stored] = {}
        #: Checksums of saved tensors at the start of the first pass that retained their graph.
        self._checksums: dict[object, int | None] = {}
        self._lock = threading.Lock()
        self._patches = Patches(self._follow)
        self._is_open = False
        self._next_number: Callable[[], int] | None = None

    def remember(self, checked: CheckedLaunch) -> None:
        """Remember the stores of a launch if autograd has recorded operators in its thread."""
        sequence = (self._next_number or self._find_next_number())()
        if sequence == 0 or checked.is_trial:
            return
        launch = checked.launch
        contexts, classes = _functions_around()
        for index in sorted(launch.kernel.variants.effects.written):
            tensor = next(iter(tensors_among([launch.arguments[index]])), None)
            version = _version(tensor)
            region = checked.regions[index]
            if version is None or region.view[0] >= region.view[1]:
                continue
            stored = _Stored(
                thread=threading.get_ident(),
                sequence=sequence,
                region=region,
                version=version,
                contexts=contexts,
                classes=classes,
                finding=_finding(checked, index),
            )
            self._add((stored.thread, *region.storage, *region.view, launch.site.line), stored)

    def _find_next_number(self) -> Callable[[], int]:
        """Return a function that returns the sequence number of the next node in this thread.

        Versions of torch without sequence numbers get a function that returns 0.
        """
        import torch

        number = getattr(torch.autograd, "_get_sequence_nr", None) or (lambda: 0)
        self._next_number = number
        return number

    def _add(self, key: object, stored: _Stored) -> None:
        with self._lock:
            self._stored.pop(key, None)
            self._stored[key] = stored
            _forget_oldest(self._stored)

    def open(self) -> None:
        """Follow backward passes."""
        with self._lock:
            if not self._is_open:
                self._is_open = True
                self._patches.__enter__()

    def close(self) -> None:
        """Stop following backward passes."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._patches.__exit__()
            self._stored.clear()
            self._checksums.clear()

    def _follow(self, patches: Patches) -> None:
        import torch

        def compared(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def backward(
                outputs: Any,
                gradients: Any,
                keep: bool,
                create: bool,
                inputs: Any = (),
                *args: Any,
                **kwargs: Any,
            ) -> Any:
                self._compare(_executed(outputs, inputs), is_retained=bool(keep))
                return original(outputs, gradients, keep, create, inputs, *args, **kwargs)

            return backward

        patches.wrap(torch.autograd, "_engine_run_backward", compared)

    def _compare(self, nodes: Iterable[Any], *, is_retained: bool) -> None:
        """Report tensors that nodes have saved and to which earlier launches have stored.

        Args:
            nodes: The nodes that a backward pass will execute.
            is_retained: True if another pass may follow.
        """
        thread = threading.get_ident()
        by_storage: defaultdict[int, list[_Stored]] = defaultdict(list)
        with self._lock:
            for stored in self._stored.values():
                if stored.thread == thread:
                    by_storage[stored.region.storage[0]].append(stored)
        if not by_storage and not is_retained:
            return
        last = max((stored.sequence for own in by_storage.values() for stored in own), default=0)
        reported: set[int] = set()
        for node in nodes:
            sequence = node._sequence_nr()
            if sequence >= last and not is_retained:
                continue
            for position, tensor in enumerate(_saved(node)):
                key = (thread, sequence, position)
                for stored in by_storage.get(start_of(tensor) or 0, ()):
                    if (
                        id(stored) not in reported
                        and stored.is_after(node)
                        and _overlaps(stored, tensor)
                        and self._has_changed(key, tensor)
                    ):
                        reported.add(id(stored))
                        self._report(_completed(stored.finding, node))
                if is_retained and key not in self._checksums:
                    with self._lock:
                        self._checksums[key] = _checksum(tensor)
                        _forget_oldest(self._checksums)

    def _has_changed(self, key: object, tensor: Any) -> bool:
        """Return whether a tensor differs from its values in an earlier pass, if there was one."""
        return key not in self._checksums or self._checksums[key] != _checksum(tensor)


def _forget_oldest(remembered: dict[Any, Any]) -> None:
    """Limit the number of entries of a dictionary."""
    while len(remembered) > _MOST_REMEMBERED:
        del remembered[next(iter(remembered))]


def _checksum(tensor: Any) -> int | None:
    """Return a checksum of the memory of a tensor; None if it is not in host memory."""
    region = None if plain_storage(tensor) is None else region_of(tensor, tensor)
    if region is None:
        return None
    return zlib.crc32(memory(*region.view).data) if region.view[0] < region.view[1] else 0


def _functions_around() -> tuple[frozenset[int], frozenset[type]]:
    """Return the nodes of the `torch.autograd.Function`s whose `forward` is running.

    Returns:
        The identities of the nodes that are the first argument of `forward`, and the types of all
        other nodes.
    """
    import torch

    forward = vars(torch.autograd.Function)["apply"].__func__.__code__
    contexts: set[int] = set()
    classes: set[type] = set()
    frame: FrameType | None = sys._getframe(1)
    inner = frame
    while frame is not None:
        if frame.f_code is forward:
            node = _first_argument(inner)
            if isinstance(node, torch._C._FunctionBase):
                contexts.add(id(node))
            else:  # `setup_context` receives the node later
                classes.add(frame.f_locals["cls"]._backward_cls)
        inner, frame = frame, frame.f_back
    return frozenset(contexts), frozenset(classes)


def _first_argument(frame: FrameType | None) -> Any:
    """Return the first positional argument of a call, even inside a decorator with `*args`."""
    names = () if frame is None else frame.f_code.co_varnames
    if frame is None or not names:
        return None
    value = frame.f_locals.get(names[0])
    return value[0] if isinstance(value, tuple) and value else value


def _version(tensor: Any) -> int | None:
    """Return the version counter of a tensor; None if there is none."""
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):  # not a tensor, or made in inference mode
        return None


def _executed(outputs: Iterable[Any], inputs: Sequence[Any]) -> Iterator[Any]:
    """Yield the nodes that a backward pass executes.

    Args:
        outputs: The tensors or edges of a graph at which the pass begins.
        inputs: The tensors or edges whose gradients are needed; if empty, those of all leaves. Only
            nodes between outputs and inputs are executed.
    """
    pending = [_node_of(out) for out in outputs]
    callers: defaultdict[Any, list[Any]] = defaultdict(list)
    visited: dict[Any, None] = {}
    while pending:
        node = pending.pop()
        if node is not None and node not in visited:
            visited[node] = None
            for following, _ in node.next_functions:
                callers[following].append(node)
                pending.append(following)
    needed: set[Any] = set()
    pending = [_node_of(tensor) for tensor in inputs]
    while pending:
        for node in callers.get(pending.pop(), ()):
            if node not in needed:
                needed.add(node)
                pending.append(node)
    yield from (node for node in visited if not inputs or node in needed)


def _node_of(output: Any) -> Any:
    """Return the node at which the gradient of a tensor or an edge arrives; None without one."""
    from torch.autograd.graph import get_gradient_edge

    node = getattr(output, "grad_fn", None) or getattr(output, "node", None)
    if node is None and getattr(output, "requires_grad", False):
        node = get_gradient_edge(output).node  # of a leaf
    return node


def _saved(node: Any) -> Iterator[Any]:
    """Yield the tensors that a node has saved, without calling hooks that unpack them."""
    for name in dir(node):
        if name.startswith(_RAW):
            try:
                raw = getattr(node, name)
            except RuntimeError:  # an earlier backward pass has freed them
                continue
            for one in raw if isinstance(raw, (list, tuple)) else [raw]:
                tensor = getattr(one, "data", None)
                # If a hook has packed a tensor, for example for a checkpoint, the packed tensor is
                # skipped.
                if hasattr(tensor, "untyped_storage") and one.unpack_hook is None:
                    yield tensor


def _overlaps(stored: _Stored, tensor: Any) -> bool:
    """Return whether a launch stored to elements of a saved tensor without torch's notice."""
    saved = region_of(tensor, tensor)
    if saved is None or _version(tensor) != stored.version:
        return False  # torch raises an error, or the values have been replaced
    own = stored.region
    if saved.storage[0] != own.storage[0]:
        return False
    start, end = max(saved.view[0], own.view[0]), min(saved.view[1], own.view[1])
    if start >= end:
        return False
    if not (saved.has_gaps or own.has_gaps) or (end - start) // saved.item > _MOST_COMPARED:
        return True
    first = saved.view[0] + (start - saved.view[0]) // saved.item * saved.item
    addresses = np.arange(first, end, saved.item, dtype=np.int64)
    return bool((saved.holds_each(addresses) & own.holds_each(addresses)).any())


def _finding(checked: CheckedLaunch, index: int) -> Finding:
    name = checked.spec.names[index]
    return Memcheck(checked).finding(
        _KIND,
        f"the kernel stores to `{name}`, which autograd had saved for the backward pass of",
        location=checked.kernel.fact(stores).get(index),
        argument=checked.spec.argument(index),
        count=0,
    )


def _completed(finding: Finding, node: Any) -> Finding:
    """Return the finding, completed by the name of the operator that saved the tensor."""
    name = node.name().rpartition(".")[2].rpartition("::")[2]
    operator = name.rstrip("0123456789").removesuffix("Backward")
    return replace(
        finding,
        message=f"{finding.message} `{operator}`; that pass uses the new values and gives wrong "
        "gradients",
    )
