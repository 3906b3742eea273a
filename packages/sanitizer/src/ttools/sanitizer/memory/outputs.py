"""Outputs of launches that no program wrote whole: memory that was handed out uninitialised.

An output is what a kernel stores through, handed to it with elements that nobody had written. If
some are missing when it ends, the output is watched: elements that the host reads before anybody
has written them are a defect, as are those that are left when the run ends, of tensors that
somebody still has and nobody has looked at. What is freed unread was scratch memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ttools.core.findings.findings import Finding
from ttools.interpreter.abi.region import Region
from ttools.sanitizer.memory.host_reads import HostReads, How, KernelReads
from ttools.sanitizer.memory.host_views import depends_on, held_views, start_of
from ttools.sanitizer.memory.missing import Bools, Missing, View
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

if TYPE_CHECKING:
    from ttools.sanitizer.memory.uninitialised import UninitialisedMemory

#: So many are watched, the latest ones.
_MOST = 256


class Sentence(Protocol):
    """Makes a finding of elements that are missing."""

    def __call__(self, missing: Missing, *, copied: bool, read: bool) -> Finding:
        """The finding.

        Args:
            missing: the elements.
            copied: whether programs have stored there, but only copies of unwritten elements.
            read: whether the host is about to read them; else the run ends.
        """


@dataclass(kw_only=True)
class Handed:
    """An output as a launch was handed it.

    Attributes:
        view: its elements.
        tell: makes findings of the launch.
        copied: the bytes of its storage to which the launch stored copies of unwritten elements.
        missing: those that were missing when it ended, where another configuration ran after it;
            else they are looked up when somebody reads them.
        beside: whether it was handed nothing, but another tensor of as many elements: a bystander,
            or a copy of one. It is judged if none of its elements was written, and only by
            reads that compute with them, or of a copy.
    """

    view: View
    tell: Sentence
    copied: Bools | None = None
    missing: Bools | None = None
    beside: Literal["original", "copy"] | None = None

    def is_judged_by(self, how: How) -> bool:
        """Whether what is missing is a defect where it is read so."""
        if self.beside is None:
            return True
        return how == "computing" or (how == "leaving" and self.beside == "copy")


@dataclass(kw_only=True)
class _Output:
    """A storage with unwritten elements, and the launches that were to write them."""

    storage: UnwrittenStorage
    handed: list[Handed] = field(default_factory=list)
    is_consumed: bool = False

    def missing(self, each: Handed, left: Bools, looked_at: Bools | None) -> tuple[Bools, Bools]:
        """Return the elements of an argument that are missing, and those that hold copies.

        Args:
            each: One of `handed`.
            left: The bytes of the storage that are unwritten now.
            looked_at: The bytes that count; all if None.
        """
        marks = left if each.missing is None else each.missing
        if looked_at is not None:
            marks = marks & looked_at
        elements = each.view.marked(marks)
        if each.beside is not None and not elements.all():
            elements = np.zeros_like(elements)
        copied = np.zeros_like(elements) if each.copied is None else each.view.marked(each.copied)
        return elements, elements & copied


class UnwrittenOutputs:
    """The outputs of a run that are not written whole.

    Args:
        known: what is known of unwritten memory.
    """

    def __init__(self, known: UninitialisedMemory, report: Callable[[Finding], None]) -> None:
        self._known, self._report = known, report
        self._outputs: dict[int, _Output] = {}
        self._reads = HostReads(self)
        self._lock = threading.RLock()
        self._own = threading.local()

    def open(self) -> None:
        """The run begins."""
        self._reads.open()

    # ---- launches
    def launching(self) -> KernelReads:
        """What is read meanwhile, a launch reads, or we do for it, and not the host."""
        return KernelReads(self._own)

    def is_whole(self, region: Region, *, is_trial: bool = False) -> bool:
        """Return whether nothing is missing of the memory of an argument; most outputs are whole.

        Args:
            region: The memory of the argument.
            is_trial: Whether the memory is put back for another configuration.
        """
        start, first, end = region.storage[0], *region.view
        storage = self._known.find(start)
        if storage is None or first >= end or not storage.may_be_unwritten:
            return True
        if storage.may_hold_left(first - start, end - start):
            return False
        with self._lock:
            if region.view == region.storage:
                storage.write_all()
            if not is_trial and start in self._outputs:
                self._look_again(self._outputs[start])
        return True

    def _look_again(self, output: _Output) -> None:
        """Forget what has been written meanwhile, and what earlier configurations left."""
        left = self._left(output)
        output.handed = [
            each for each in output.handed if each.missing is None and each.view.marked(left).any()
        ]
        if not output.handed:
            del self._outputs[output.storage.start]

    def _left(self, output: _Output) -> Bools:
        """Return the bytes of a storage that are certainly unwritten now."""
        left = self._known.left(output.storage.start)
        return np.zeros(output.storage.nbytes, np.bool_) if left is None else left

    def watch(self, storage: Any, handed: Handed) -> None:
        """Watches the storage of an output of which something may be missing."""
        start = int(storage.data_ptr())
        known = self._known.find(start)
        if known is None or handed.view.end > known.nbytes:
            return
        self._known.mark_output(start)
        with self._lock:
            self._forget_dead()
            output = self._outputs.get(start)
            if output is None:
                output = self._outputs[start] = _Output(storage=known)
            if handed.missing is None:
                # What other configurations left is history; what was copied there stays so.
                for each in output.handed:
                    if each.view == handed.view and each.copied is not None:
                        new = handed.copied
                        handed.copied = each.copied if new is None else each.copied | new
                output.handed = [each for each in output.handed if each.view != handed.view]
            output.handed.append(handed)
            if len(self._outputs) > _MOST:
                del self._outputs[next(iter(self._outputs))]
        self._reads.begin()

    def consumed(self, starts: Iterable[int]) -> None:
        """Kernels may read these storages: they need no reader on the host."""
        with self._lock:
            for start in starts:
                if start in self._outputs:
                    self._outputs[start].is_consumed = True

    def watch_bystanders(self, count: int, tell: Sentence) -> None:
        """Watches what a launch was not given, of as many elements as an output of it has."""
        for each in self._known.bystanders.of(count):
            if each.start not in self._outputs:
                self._watch_bystander(each.start, each.nbytes, count, tell, "original")

    def _watch_bystander(
        self,
        start: int,
        nbytes: int,
        count: int,
        tell: Sentence,
        beside: Literal["original", "copy"],
    ) -> None:
        known, item = self._known.find(start), nbytes // count
        if known is None or known.nbytes != nbytes or item * count != nbytes:
            return
        view = View(offset=0, shape=(count,), strides=(item,), item=item)
        with self._lock:
            self._outputs[start] = _Output(
                storage=known,
                handed=[Handed(view=view, tell=tell, beside=beside)],
                is_consumed=True,  # nothing is said of it when the run ends
            )
        self._reads.begin()

    def handed(self, starts: Collection[int]) -> None:
        """A launch was given these storages: they are no bystanders."""
        self._known.bystanders.handed(starts)
        with self._lock:
            for start in self._outputs.keys() & starts:
                if any(each.beside is not None for each in self._outputs[start].handed):
                    del self._outputs[start]

    def settle(self) -> None:
        """Called after each launch: nothing is watched for longer than needed."""
        with self._lock:
            if self._outputs:
                self._forget_dead()
            if not self._outputs:
                self._reads.end()

    @property
    def any(self) -> bool:
        return bool(self._outputs)

    # ---- what the host does
    def reads(
        self,
        tensor: Any,
        result: Any = None,
        again: Callable[[], Any] | None = None,
        *,
        how: How = "computing",
    ) -> None:
        """Report missing elements among those that the host is about to read."""
        output = self._output_of(tensor)
        if output is None:
            return
        output.is_consumed = True
        view, nbytes = View.of(tensor), output.storage.nbytes
        if view.end > nbytes or not tensor.numel():
            return
        looked_at = np.zeros(nbytes, np.bool_)
        view.elements(looked_at)[...] = True
        with self._lock:
            if again is not None and not depends_on(
                output.storage, self._left(output) & looked_at, result, again
            ):
                return
            if self._judge(output, looked_at, how):
                self._outputs.pop(output.storage.start, None)

    def copied(self, tensor: Any, copy: Any) -> None:
        """A copy of a bystander is as good as it."""
        output = self._output_of(tensor)
        start = None if output is None else start_of(copy)
        if output is None or start is None:
            return
        count, nbytes = int(copy.numel()), int(copy.untyped_storage().nbytes())
        for each in output.handed:
            if each.beside is not None and each.view.shape == (count,):
                self._watch_bystander(start, nbytes, count, each.tell, "copy")

    def writes(self, tensor: Any, *, is_whole: bool = True) -> None:
        """Note that the host writes elements, which no configuration has left then.

        Args:
            tensor: Has the elements.
            is_whole: Whether all of them are written, else some.
        """
        output = self._output_of(tensor)
        if output is None:
            return
        if is_whole:
            self._known.written(tensor)
        view = View.of(tensor)
        for each in output.handed:
            if each.missing is not None and view.end <= output.storage.nbytes:
                view.elements(each.missing)[...] = False

    def _output_of(self, tensor: Any) -> _Output | None:
        if not self._outputs or getattr(self._own, "reads", False):
            return None
        start = start_of(tensor)
        output = None if start is None else self._outputs.get(start)
        return None if output is None or output.storage.reference.expired() else output

    # ---- the end
    def close(self) -> None:
        """The run ends: reports what is missing of tensors that somebody has and nobody read."""
        self._reads.close()
        with self._lock:
            self._forget_dead()
            left = [each for each in self._outputs.values() if not each.is_consumed]
            self._outputs = {}
        if left:
            held = held_views({each.storage.start for each in left})
            for output in left:
                looked_at = np.zeros(output.storage.nbytes, np.bool_)
                for view in held.get(output.storage.start, ()):
                    if view.end <= output.storage.nbytes:
                        view.elements(looked_at)[...] = True
                self._judge(output, looked_at, None)

    def _judge(self, output: _Output, looked_at: Bools, how: How | None) -> bool:
        """Reports what is missing where it is read so, or not at all; whether anything is."""
        found, read = False, how is not None
        left = self._left(output)
        for each in output.handed:
            if how is not None and not each.is_judged_by(how):
                continue
            missing, copied = output.missing(each, left, looked_at)
            for marks, of_copies in ((missing & ~copied, False), (copied, True)):
                if marks.any():
                    found = True
                    self._report(each.tell(Missing.of(marks), copied=of_copies, read=read))
        return found

    def _forget_dead(self) -> None:
        for start in [k for k, each in self._outputs.items() if each.storage.reference.expired()]:
            del self._outputs[start]
