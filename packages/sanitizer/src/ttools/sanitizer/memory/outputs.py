"""Outputs of launches that no program wrote whole: memory that was handed out uninitialised.

An output is what a kernel stores through, handed to it with elements that nobody had written. If
some are missing when it ends, the output is watched: elements that the host reads before anybody
has written them are a defect, as are those that are left when the run ends, of tensors that
somebody still has and nobody has looked at. What is freed unread was scratch memory.

Owns which outputs are watched, and when they are judged. Must not know what a finding says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ttools.core.findings.findings import Finding
from ttools.interpreter.abi.region import Region
from ttools.interpreter.runtime.snapshot import memory
from ttools.sanitizer.memory.host_reads import HostReads, How, Launching
from ttools.sanitizer.memory.host_views import held_views, holds, start_of
from ttools.sanitizer.memory.missing import Bools, Missing, View, may_be_missing, missing_bytes
from ttools.sanitizer.memory.pattern import Grain, common, held
from ttools.sanitizer.memory.unstored import Logged

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

    reference: Any
    start: int
    nbytes: int
    pattern: bytes
    grain: Grain
    handed: list[Handed] = field(default_factory=list)
    is_consumed: bool = False

    def missing(
        self, each: Handed, looked_at: Bools | None, logged: Logged | None
    ) -> tuple[Bools, Bools]:
        """Elements of an argument that are missing, and those of them that hold copies.

        Args:
            each: one of `handed`.
            looked_at: the bytes that count; all if None.
            logged: what logs of launches tell of the storage.
        """
        marks = each.missing
        if marks is None:
            own = memory(self.start, self.start + self.nbytes)
            grain = common(self.grain, each.view.grain)
            marks = missing_bytes(own, each.view.item, self.pattern, grain)
            if logged is not None:
                marks = logged.among(marks, held(own, self.pattern, 1))
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
    def launching(self) -> Launching:
        """What is read meanwhile, a launch reads, or we do for it, and not the host."""
        return Launching(self._own)

    def is_whole(self, region: Region, *, copies: bool = False, is_trial: bool = False) -> bool:
        """Whether nothing can be missing of the memory of an argument; most outputs are whole.

        Args:
            copies: whether the launch may have stored copies of unwritten elements.
            is_trial: whether the memory is put back for another configuration.
        """
        start, first, end = region.storage[0], *region.view
        pattern = self._known.pattern_at(start)
        if pattern is None or first >= end or (not copies and self._known.was_whole(start)):
            return True
        if may_be_missing(memory(first & ~1, end), pattern, self._known.grain_at(start)):
            return False
        with self._lock:
            if region.view == region.storage:
                self._known.mark_whole(start)
            if not is_trial and start in self._outputs:
                self._look_again(self._outputs[start])
        return True

    def _look_again(self, output: _Output) -> None:
        """Forgets what has been written meanwhile, and what earlier configurations left."""
        own = memory(output.start, output.start + output.nbytes)
        output.handed = [
            each
            for each in output.handed
            if each.missing is None
            and may_be_missing(
                own[each.view.offset & ~1 : each.view.end], output.pattern, each.view.grain
            )
        ]
        if not output.handed:
            del self._outputs[output.start]

    def watch(self, storage: Any, handed: Handed) -> None:
        """Watches the storage of an output of which something may be missing."""
        start, nbytes = int(storage.data_ptr()), int(storage.nbytes())
        pattern = self._known.pattern_at(start)
        reference = self._known.reference_to(start)
        if pattern is None or reference is None or handed.view.end > nbytes:
            return
        self._known.mark_output(start)
        with self._lock:
            self._forget_dead()
            output = self._outputs.get(start)
            if output is None:
                output = self._outputs[start] = _Output(
                    reference=reference,
                    start=start,
                    nbytes=nbytes,
                    pattern=pattern,
                    grain=self._known.grain_at(start),
                )
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
        pattern, reference = self._known.pattern_at(start), self._known.reference_to(start)
        item = nbytes // count
        if pattern is None or reference is None or item * count != nbytes:
            return
        view = View(offset=0, shape=(count,), strides=(item,), item=item)
        with self._lock:
            self._outputs[start] = _Output(
                reference=reference,
                start=start,
                nbytes=nbytes,
                pattern=pattern,
                grain=self._known.grain_at(start),
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
    def reads(self, tensor: Any, result: Any = None, *, how: How = "computing") -> None:
        """Reports missing elements among those that the host is about to read."""
        output = self._output_of(tensor)
        if output is None:
            return
        output.is_consumed = True
        if result is not None and not holds(result, output.pattern):
            return
        view = View.of(tensor)
        if view.end > output.nbytes or not tensor.numel():
            return
        looked_at = np.zeros(output.nbytes, np.bool_)
        view.elements(looked_at)[...] = True
        with self._lock:
            if self._judge(output, looked_at, how):
                self._outputs.pop(output.start, None)

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

    def writes(self, tensor: Any) -> None:
        """What the host writes was not left, by configurations that ran earlier or otherwise."""
        output = self._output_of(tensor)
        if output is None:
            return
        view, logged = View.of(tensor), self._known.logged_at(output.start)
        marks = [each.missing for each in output.handed]
        if logged is not None:
            marks.append(logged.left)
        for each in marks:
            if each is not None and view.end <= output.nbytes:
                view.elements(each)[...] = False

    def _output_of(self, tensor: Any) -> _Output | None:
        if not self._outputs or getattr(self._own, "reads", False):
            return None
        start = start_of(tensor)
        output = None if start is None else self._outputs.get(start)
        return None if output is None or output.reference.expired() else output

    # ---- the end
    def close(self) -> None:
        """The run ends: reports what is missing of tensors that somebody has and nobody read."""
        self._reads.close()
        with self._lock:
            self._forget_dead()
            left = [each for each in self._outputs.values() if not each.is_consumed]
            self._outputs = {}
        if left:
            held = held_views({each.start for each in left})
            for output in left:
                looked_at = np.zeros(output.nbytes, np.bool_)
                for view in held.get(output.start, ()):
                    if view.end <= output.nbytes:
                        view.elements(looked_at)[...] = True
                self._judge(output, looked_at, None)

    def _judge(self, output: _Output, looked_at: Bools, how: How | None) -> bool:
        """Reports what is missing where it is read so, or not at all; whether anything is."""
        found, read = False, how is not None
        logged = self._known.logged_at(output.start)
        for each in output.handed:
            if how is not None and not each.is_judged_by(how):
                continue
            missing, copied = output.missing(each, looked_at, logged)
            for marks, of_copies in ((missing & ~copied, False), (copied, True)):
                if marks.any():
                    found = True
                    self._report(each.tell(Missing.of(marks), copied=of_copies, read=read))
        return found

    def _forget_dead(self) -> None:
        for start in [k for k, each in self._outputs.items() if each.reference.expired()]:
            del self._outputs[start]
