"""The accesses of a run to memory as a pandas frame.

Owns the names and order of columns. Must not know how a run was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.profiler.access.requests import AccessQuality, access_qualities
from ttools.profiler.report.frames import is_of
from ttools.profiler.run.configuration import config_text
from ttools.profiler.run.session import Sample


def qualities(
    samples: Sequence[Sample],
    compiled: Sequence[Inspection],
    variants: Mapping[int, KernelSource] = MappingProxyType({}),
) -> Iterator[tuple[Sample, Inspection, list[AccessQuality]]]:
    """The launch of each specialisation that requests most bytes, and its accesses.

    Those of one kernel and configuration come with the one that requests most first.

    Args:
        samples: of a run.
        compiled: what a compiler made of the specialisations.
        variants: which of these each sample is; without, its tiles decide.
    """
    largest: dict[tuple[str, str], dict[int, Sample]] = {}
    for sample in samples:
        if sample.counts is None:
            continue
        source = variants.get(sample.variant) if sample.variant is not None else None
        own = largest.setdefault((sample.kernel, config_text(sample.config)), {})
        known = own.get(id(source))
        if known is None or requested(known) < requested(sample):
            own[id(source)] = sample
    for (kernel, config), by_source in largest.items():
        named = [each for each in compiled if each.source.name == kernel and is_of(each, config)]
        for number in sorted(by_source, key=lambda number: -requested(by_source[number])):
            sample = by_source[number]
            exact = [each for each in named if id(each.source) == number]
            assert sample.counts is not None
            found = [
                (each, access_qualities(sample.counts.accesses, each)) for each in exact or named
            ]
            if found:
                yield sample, *max(found, key=lambda pair: len(pair[1]))


def requested(sample: Sample) -> int:
    """Bytes that a launch requests; -1 where that is unknown."""
    return sample.counts.total.bytes if sample.counts else -1


def access_frame(
    found: Iterable[tuple[str, str, Sequence[AccessQuality]]],
) -> pd.DataFrame:
    """A row per access, in the order of the source.

    Columns: `kernel`, `config`, `file`, `line`, `kind`; `bits` that a thread accesses at once, and
    `possible_bits`, what addresses would allow; `sectors_per_request` of 32 bytes and
    `ideal_per_request`, the fewest; `efficiency`, the share of the bytes moved that could not be
    left out; `active`, the share of the requests' lanes in use; `shared_by`, by how many programs
    a byte is touched on average (NaN for very many runs of bytes), and `again`, how often a program
    touches it; `layout` of the tile; `sampled`, whether only some tiles were looked at.

    Args:
        found: kernel, configuration and accesses.
    """
    rows = [_row(kernel, config, each) for kernel, config, accesses in found for each in accesses]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).sort_values(
        ["kernel", "config", "file", "line"], ignore_index=True, kind="stable"
    )


_COLUMNS = (
    *("kernel", "config", "file", "line", "kind", "bits", "possible_bits", "sectors_per_request"),
    *("ideal_per_request", "efficiency", "active", "shared_by", "again", "layout", "sampled"),
)


def _row(kernel: str, config: str, access: AccessQuality) -> dict[str, Any]:
    location = access.location
    return {
        "kernel": kernel,
        "config": config,
        "file": location.file if location else "",
        "line": location.line if location else 0,
        "kind": access.trace.kind,
        "bits": access.bits,
        "possible_bits": access.possible_bits,
        "sectors_per_request": access.sectors_per_request,
        "ideal_per_request": access.ideal_per_request,
        "efficiency": access.efficiency,
        "active": access.active,
        "shared_by": access.trace.shared_by,
        "again": access.trace.again,
        "layout": access.layout,
        "sampled": access.trace.sampled,
    }
