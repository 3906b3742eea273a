"""Outputs that launches did not write completely, in memory that was allocated uninitialised.

An output is a tensor that a kernel stores to. If some of its elements are unwritten when the launch
ends, the output is watched. It is a defect if the host reads such elements before they are written.
At the end of the run, remaining unwritten elements are reported for tensors that are still alive
and that nothing has read. Tensors that were freed unread were scratch memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ttools.core.findings.findings import Finding
from ttools.core.spec import TensorSpec, view_spec
from ttools.interpreter.abi.region import Region
from ttools.sanitizer.memory.host_reads import HostReads, KernelReads, ReadKind
from ttools.sanitizer.memory.host_storages import depends_on, live_views, start_of
from ttools.sanitizer.memory.unwritten_elements import (
    Bools,
    Missing,
    by_element,
    consecutive,
    marked_elements,
)
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage

if TYPE_CHECKING:
    from ttools.sanitizer.memory.uninitialised import UninitialisedMemory

#: Maximum number of outputs that are watched; if there are more, the oldest are dropped.
_MOST = 256


class MissingFinding(Protocol):
    """Makes a finding for unwritten elements."""

    def __call__(self, missing: Missing, *, copied: bool, read: bool) -> Finding:
        """Return the finding for unwritten elements.

        Args:
            missing: The unwritten elements that are read.
            copied: True if programs have stored to these elements, but only copies of unwritten
                elements.
            read: True if the host is about to read the elements; False at the end of the run.
        """


@dataclass(kw_only=True)
class OutputView:
    """An output as it was passed to a launch.

    Attributes:
        view: The elements of the output.
        make_finding: Creates findings for the launch.
        copied: Bytes of the storage to which the launch stored copies of unwritten elements.
        missing: The bytes that were unwritten when the launch ended, if another configuration ran
            after it. By default, they are determined when the output is read.
        untouched: Not None for a tensor that was not passed to the launch, but has as many elements
            as one of its outputs: an untouched storage, or a copy of one. It is reported only if
            none of its elements is written, and only when an operator computes with it or a copy of
            it leaves torch.
    """

    view: TensorSpec
    make_finding: MissingFinding
    copied: Bools | None = None
    missing: Bools | None = None
    untouched: Literal["original", "copy"] | None = None

    def is_defect_when(self, how: ReadKind) -> bool:
        """Return whether reading missing elements in this way is a defect."""
        if self.untouched is None:
            return True
        return how == "computing" or (how == "leaving" and self.untouched == "copy")


@dataclass(kw_only=True)
class _Output:
    """A storage with unwritten elements, and the launch arguments that should have written them."""

    storage: UnwrittenStorage
    views: list[OutputView] = field(default_factory=list)
    is_consumed: bool = False

    def missing(
        self, output: OutputView, unwritten: Bools, looked_at: Bools | None
    ) -> tuple[Bools, Bools]:
        """Return which elements of an output are unwritten, and which of them contain copies.

        Args:
            output: An element of `views`.
            unwritten: The bytes of the storage that are unwritten now.
            looked_at: The bytes that count; None for all.
        """
        marks = unwritten if output.missing is None else output.missing
        if looked_at is not None:
            marks = marks & looked_at
        elements = marked_elements(output.view, marks)
        if output.untouched is not None and not elements.all():
            elements = np.zeros_like(elements)
        copied = (
            np.zeros_like(elements)
            if output.copied is None
            else marked_elements(output.view, output.copied)
        )
        return elements, elements & copied


class UnwrittenOutputs:
    """The outputs of a run that have unwritten elements.

    Args:
        memory: The record of unwritten memory.
        report: Receives each finding when it is made.
    """

    def __init__(self, memory: UninitialisedMemory, report: Callable[[Finding], None]) -> None:
        self._memory, self._report = memory, report
        self._outputs: dict[int, _Output] = {}
        self._reads = HostReads(self)
        self._lock = threading.RLock()
        self._own = threading.local()

    def open(self) -> None:
        """Begin the run."""
        self._reads.open()

    # ---- launches
    def launching(self) -> KernelReads:
        """Return a context in which reads belong to a launch, and not to the host."""
        return KernelReads(self._own)

    def is_whole(
        self, region: Region, *, is_trial: bool = False, is_searched: bool = False
    ) -> bool:
        """Return whether an argument has no unwritten elements, as is the case for most outputs.

        Args:
            region: The memory of the argument.
            is_trial: If True, the memory will be restored for another configuration.
            is_searched: If True, a search since the launch has found no unwritten bytes.
        """
        start, first, end = region.storage[0], *region.view
        storage = self._memory.find(start)
        if storage is None or first >= end or not storage.may_be_unwritten:
            return True
        if not is_searched and storage.may_hold_unwritten(first - start, end - start):
            return False
        with self._lock:
            if region.view == region.storage:
                storage.write_all()
            if not is_trial and start in self._outputs:
                self._look_again(self._outputs[start])
        return True

    def _look_again(self, output: _Output) -> None:
        """Drop views that were written since the launch or belong to earlier configurations."""
        left = self._left(output)
        output.views = [
            passed
            for passed in output.views
            if passed.missing is None and marked_elements(passed.view, left).any()
        ]
        if not output.views:
            del self._outputs[output.storage.start]

    def _left(self, output: _Output) -> Bools:
        """Return the bytes of a storage that are certainly unwritten now."""
        unwritten = self._memory.unwritten_bytes(output.storage.start)
        return np.zeros(output.storage.nbytes, np.bool_) if unwritten is None else unwritten

    def watch(self, storage: Any, output_view: OutputView) -> None:
        """Watch the storage of an output that may have unwritten elements."""
        start = int(storage.data_ptr())
        unwritten_storage = self._memory.find(start)
        if unwritten_storage is None or output_view.view.span[1] > unwritten_storage.nbytes:
            return
        self._memory.mark_output(start)
        with self._lock:
            self._forget_dead()
            output = self._outputs.get(start)
            if output is None:
                output = self._outputs[start] = _Output(storage=unwritten_storage)
            if output_view.missing is None:
                # This launch replaces what other configurations have left, except for their copies.
                for earlier in output.views:
                    if earlier.view == output_view.view and earlier.copied is not None:
                        new = output_view.copied
                        output_view.copied = earlier.copied if new is None else earlier.copied | new
                output.views = [
                    earlier for earlier in output.views if earlier.view != output_view.view
                ]
            output.views.append(output_view)
            if len(self._outputs) > _MOST:
                del self._outputs[next(iter(self._outputs))]
        self._reads.begin()

    def consumed(self, starts: Iterable[int]) -> None:
        """Record that kernels may read these storages, so that the host need not read them."""
        with self._lock:
            for start in starts:
                if start in self._outputs:
                    self._outputs[start].is_consumed = True

    def watch_untouched(self, count: int, make_finding: MissingFinding) -> None:
        """Watch storages of the size of a launch's output that were not passed to that launch."""
        for storage in self._memory.untouched.of(count):
            if storage.start not in self._outputs:
                self._watch_untouched(
                    storage.start, storage.nbytes, count, make_finding, "original"
                )

    def _watch_untouched(
        self,
        start: int,
        nbytes: int,
        count: int,
        make_finding: MissingFinding,
        untouched: Literal["original", "copy"],
    ) -> None:
        storage, item = self._memory.find(start), nbytes // count
        if storage is None or storage.nbytes != nbytes or item * count != nbytes:
            return
        view = consecutive(count, item)
        with self._lock:
            self._outputs[start] = _Output(
                storage=storage,
                views=[OutputView(view=view, make_finding=make_finding, untouched=untouched)],
                is_consumed=True,  # it is not reported at the end of the run
            )
        self._reads.begin()

    def passed_to_launch(self, starts: Collection[int]) -> None:
        """Record that these storages were passed to a launch and so are no longer untouched."""
        self._memory.untouched.remove(starts)
        with self._lock:
            for start in self._outputs.keys() & starts:
                if any(view.untouched is not None for view in self._outputs[start].views):
                    del self._outputs[start]

    def settle(self) -> None:
        """Stop observing reads if nothing is left to watch; called after each launch."""
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
        how: ReadKind = "computing",
    ) -> None:
        """Report missing elements among those that the host is about to read."""
        output = self._output_of(tensor)
        if output is None:
            return
        output.is_consumed = True
        view, nbytes = view_spec(tensor), output.storage.nbytes
        if view.span[1] > nbytes or not tensor.numel():
            return
        looked_at = np.zeros(nbytes, np.bool_)
        by_element(view, looked_at)[...] = True
        with self._lock:
            if again is not None and not depends_on(
                output.storage, self._left(output) & looked_at, result, again
            ):
                return
            if self._report_missing(output, looked_at, how):
                self._outputs.pop(output.storage.start, None)

    def copied(self, tensor: Any, copy: Any) -> None:
        """Watch the copy of an untouched storage like the storage itself."""
        output = self._output_of(tensor)
        start = None if output is None else start_of(copy)
        if output is None or start is None:
            return
        count, nbytes = int(copy.numel()), int(copy.untyped_storage().nbytes())
        for passed in output.views:
            if passed.untouched is not None and passed.view.shape == (count,):
                self._watch_untouched(start, nbytes, count, passed.make_finding, "copy")

    def writes(self, tensor: Any, *, is_whole: bool = True) -> None:
        """Record that the host writes all or some elements of a tensor.

        These elements are then not attributed to any configuration.
        """
        output = self._output_of(tensor)
        if output is None:
            return
        if is_whole:
            self._memory.written(tensor)
        view = view_spec(tensor)
        for passed in output.views:
            if passed.missing is not None and view.span[1] <= output.storage.nbytes:
                by_element(view, passed.missing)[...] = False

    def _output_of(self, tensor: Any) -> _Output | None:
        if not self._outputs or getattr(self._own, "reads", False):
            return None
        start = start_of(tensor)
        output = None if start is None else self._outputs.get(start)
        return None if output is None or output.storage.reference.expired() else output

    # ---- the end
    def close(self) -> None:
        """End the run: report unwritten elements of tensors that are alive and were never read."""
        self._reads.close()
        with self._lock:
            self._forget_dead()
            unread = [output for output in self._outputs.values() if not output.is_consumed]
            self._outputs = {}
        if unread:
            views = live_views({output.storage.start for output in unread})
            for output in unread:
                looked_at = np.zeros(output.storage.nbytes, np.bool_)
                for view in views.get(output.storage.start, ()):
                    if view.span[1] <= output.storage.nbytes:
                        by_element(view, looked_at)[...] = True
                self._report_missing(output, looked_at, None)

    def _report_missing(self, output: _Output, looked_at: Bools, how: ReadKind | None) -> bool:
        """Report missing elements that are read in the given way, or never read if `how` is None.

        Returns:
            True if there are such elements.
        """
        is_missing, read = False, how is not None
        unwritten = self._left(output)
        for passed in output.views:
            if how is not None and not passed.is_defect_when(how):
                continue
            missing, copied = output.missing(passed, unwritten, looked_at)
            for marks, of_copies in ((missing & ~copied, False), (copied, True)):
                if marks.any():
                    is_missing = True
                    self._report(
                        passed.make_finding(Missing.of(marks), copied=of_copies, read=read)
                    )
        return is_missing

    def _forget_dead(self) -> None:
        for start in [
            k for k, output in self._outputs.items() if output.storage.reference.expired()
        ]:
            del self._outputs[start]
