"""The verdict on sizes as text: a line for each kernel, and the first finding if it fails."""

from __future__ import annotations

from collections.abc import Iterator

from ttools.core.gpus.memory import memory_text
from ttools.core.reports.report import Report, counted, summary
from ttools.core.reports.sizes import SizesVerdict
from ttools.core.reports.text import finding_blocks, finding_text
from ttools.core.reports.wrapping import wrapped


def write(report: Report, verbose: bool = False) -> str:
    """Return the verdict on each kernel, the findings, and the summary.

    Args:
        verbose: If True, also show further findings, all assumptions, and everything that is not
            proved.
    """
    sizes = report.sizes
    assert sizes is not None
    # Defects at the script's own sizes come first: they occur without any other size.
    own_sizes = [finding for finding in report.findings if finding.sizes is None]
    blocks = finding_blocks(own_sizes, report.root, verbose=verbose)
    left = [finding for finding in report.findings if finding not in own_sizes]
    lines: list[str] = []
    for kernel in sizes.by_kernel:
        places = [unproved.place(report.root) for unproved in kernel.unproved]
        lines += wrapped(kernel.text(report.root), whole=places)
        own = [f for f in left if f.sizes is not None and f.kernel == kernel.kernel]
        left = [f for f in left if f not in own]
        if own:
            first, *others = (
                finding_text(finding, report.root, verbose=verbose) for finding in own
            )
            blocks.append("\n".join([*lines, first]))
            lines = []
            if verbose:
                blocks += others
            elif others:
                blocks[-1] += f"\n  {counted(len(others), 'further finding')}, shown with -v"
    blocks += ["\n".join(lines)] if lines else []
    blocks += finding_blocks(left, report.root, verbose=verbose)
    if verbose and (details := sizes.details(report.root)):
        blocks.append("\n".join(details))
    last = wrapped(summary(report))
    for hint in [] if verbose else _hints(sizes):
        last += wrapped(hint, "  ", "  ")
    return "\n\n".join([*blocks, "\n".join(last)]) + "\n"


def _hints(sizes: SizesVerdict) -> Iterator[str]:
    """Yield lines that say what the text leaves out, and how to check other sizes."""
    counts = [
        counted(len(sizes.abstained), "unproved condition") if sizes.abstained else "",
        counted(len(sizes.by_solver), "proof by Z3", "proofs by Z3") if sizes.by_solver else "",
        counted(len(sizes.assumptions), "assumption") if sizes.assumptions else "",
    ]
    if any(counts):
        yield f"-v lists {', '.join(filter(None, counts))}"
    if kept := list(dict.fromkeys(name for kernel in sizes.by_kernel for name in kernel.kept)):
        yield f"--sizes {kept[0]}=FIRST:LAST checks other values of `{kept[0]}`"
    if sizes.memory is not None:
        more = memory_text(2 * sizes.memory).replace(" ", "")
        yield f"--memory {more} changes the limit, --sizes NAME=FIRST:LAST sets a range"
