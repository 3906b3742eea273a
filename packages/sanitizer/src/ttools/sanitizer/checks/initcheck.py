"""The check `initcheck`: uninitialised values that influence an address, a branch or an output.

`passes.undefined` tracks undefined lanes through a kernel; `memory` tracks the bytes that were
never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from ttools.core.findings.findings import Finding
from ttools.interpreter.analysis.positions import Position
from ttools.interpreter.analysis.unpadded_loads import unpadded_loads
from ttools.interpreter.runtime.monitor import Count
from ttools.sanitizer.causes.unmasked_uses import cause_of_undefined_lanes
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.checks.unwritten_output import earlier_writers, watch_outputs
from ttools.sanitizer.memory.shadows import ArgumentShadows
from ttools.sanitizer.passes import histogram_bins, undefined
from ttools.sanitizer.passes.check import places
from ttools.sanitizer.passes.rewrites import Pass
from ttools.sanitizer.passes.shadow_memory import hidden_parameters

_BINS = (Pass("initcheck", "bins", histogram_bins.apply),)


class Initcheck(Check):
    """Finds undefined lanes that reach an address, a branch or an output, and unwritten outputs."""

    name = "initcheck"
    page = "reference/findings.md#uninitialised-memory"
    data_hooks = frozenset({"passes", "findings"})
    seeks = "reads of unwritten memory"
    aliases = ("msan",)
    observes = frozenset({"allocations"})
    kinds: ClassVar[Kinds] = {
        "uninit_read": Kind(
            severity="error",
            meaning="Memory that was never written, or an undefined lane of a masked load, affects "
            "an address, a branch or an output; a warning for lanes of a block pointer without "
            "`padding_option`.",
            help="write the memory before it is read, for example with torch.zeros, or mask the "
            "load",
        ),
        "oob_gather": Kind(
            severity="error",
            meaning="`tl.gather` reads at indices outside the axis of its source, and the result "
            "affects an address, a branch or an output.",
            help="keep the indices inside, or drop those lanes with tl.where or a mask",
        ),
        "oob_bin": Kind(
            severity="warning",
            meaning="`tl.histogram` receives a value for which it has no bin: NVIDIA GPUs ignore "
            "the value, AMD GPUs count it as another value.",
            help="pass a mask that leaves such values out, as in tl.histogram(x, BINS, mask=x < "
            "BINS), or take more bins",
        ),
        "unwritten_output": Kind(
            severity="error",
            meaning="An output was uninitialised when it was passed to a launch, no program wrote "
            "some of its elements, and the host reads them; a warning if the run ends before they "
            "are read.",
            help="let a program write each element, or fill the tensor before the launch, for "
            "example with torch.zeros",
        ),
    }

    _shadows: ArgumentShadows | None = None

    def passes(self) -> Sequence[Pass]:
        """Return the passes that this kernel needs for undefined values and for histograms."""
        kernel = self.checked.kernel
        return (*self._undefined(), *(_BINS if kernel.fact(histogram_bins.histograms) else ()))

    def _undefined(self) -> Sequence[Pass]:
        """Return the undefined-value pass if the kernel may read undefined memory or lanes."""
        checked = self.checked
        kernel = checked.kernel
        tracked, by_address = frozenset[int](), False
        reads, follows = kernel.fact(undefined.reads), kernel.fact(undefined.follows_addresses)
        if follows or any(map(self._may_be_unwritten, reads)):
            shadows = ArgumentShadows(
                checked.launch,
                checked.regions,
                checked.memory,
                checked.book,
                reads=reads,
                follows_addresses=follows,
            )
            tracked, by_address = shadows.tracked, shadows.by_address
            if tracked or by_address:
                self._shadows = shadows
        if not (tracked or by_address or kernel.fact(undefined.may_report)):
            return ()
        decided = tracked, by_address
        return kernel.remember(
            (Initcheck, *decided), lambda: _pass_for(*decided, unpadded_loads(kernel.ttir))
        )

    def _may_be_unwritten(self, index: int) -> bool:
        """Determine by a cheap test whether the storage of an argument may have unwritten bytes."""
        storage = self.checked.memory.find(self.checked.regions[index].storage[0])
        return storage is not None and storage.may_be_unwritten

    def hidden(self) -> Sequence[int]:
        """Return the addresses of the shadow memory that the pass reads and writes."""
        shadows = self._shadows
        if shadows is None:
            return ()
        decided = shadows.tracked, shadows.by_address
        names = self.checked.kernel.remember(decided, lambda: hidden_parameters(*decided))
        return shadows.hidden(names)

    def failures(self, counts: Sequence[Count]) -> Iterator[Finding]:
        """Yield findings for undefined lanes and for reads of unwritten memory.

        Findings for unwritten memory list the elements that were never written.
        """
        for count in filter(self.is_own, counts):
            finding, defect = self.at_site(count), dict(count.witness.site.attributes)
            if self._shadows is not None and undefined.UNWRITTEN in finding.message:
                index = int(defect["argument"])
                finding = replace(
                    finding,
                    notes=(*finding.notes, *self._shadows.unwritten(index)),
                    related=(*finding.related, *earlier_writers(self.checked, index)),
                )
            yield self._with_cause(finding, count)

    def _with_cause(self, finding: Finding, count: Count) -> Finding:
        """Return a finding with the cause that it shares with an out-of-bounds access, if any."""
        if finding.origin != "masked" or not self.checked.causes:
            return finding
        (use,) = places(dict(count.witness.site.attributes).get("origins", "")) or [None]
        cause = cause_of_undefined_lanes(self.checked, count.witness.site.location, use)
        if cause is None or use is None:
            return finding
        help_line = f"give the access in line {use.line} the mask of this load"
        return replace(finding, cause=cause, help=help_line)

    def findings(self) -> Iterable[Finding]:
        """Register outputs with unwritten elements; they are reported when the host reads them."""
        if not self.checked.hung:
            watch_outputs(self, self._shadows)
        return ()


def _pass_for(
    tracked: frozenset[int],
    by_address: bool,
    unpadded: frozenset[Position],
) -> Sequence[Pass]:
    name = f"undefined {sorted(tracked)} {by_address}"
    apply = partial(
        undefined.apply,
        tracked=tracked,
        by_address=by_address,
        unpadded=unpadded,
    )
    return (Pass("initcheck", name, apply),)
