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
from ttools.profiler.report.forms import Form, forms_of, judged
from ttools.profiler.report.frames import is_of
from ttools.profiler.run.session import Sample


def qualities(
    samples: Sequence[Sample],
    compiled: Sequence[Inspection],
    variants: Mapping[int, KernelSource] = MappingProxyType({}),
) -> Iterator[tuple[Form, Inspection, list[AccessQuality]]]:
    """The forms of a run's launches that were counted, and their accesses.

    Of one kernel and configuration the form that requests most comes first, of very many those
    that request most in all come, see `forms.MOST`.

    Args:
        compiled: what a compiler made of the specialisations.
        variants: which of these each sample is; without, its tiles decide.
    """
    counted = [sample for sample in samples if sample.counts is not None]
    for (kernel, config), forms in forms_of(counted, variants).items():
        named = [each for each in compiled if each.source.name == kernel and is_of(each, config)]
        for form in judged(forms):
            exact = [each for each in named if each.source is form.source]
            counts = form.sample.counts
            assert counts is not None
            found = [(each, access_qualities(counts.accesses, each)) for each in exact or named]
            if found:
                yield form, *max(found, key=lambda pair: len(pair[1]))


def access_frame(
    found: Iterable[tuple[Mapping[str, Any], Sequence[AccessQuality]]],
) -> pd.DataFrame:
    """A row per access of each form of launches, in the order of the source.

    Columns: `kernel`, `config`, `grid`, `specialisation`, what tells it from the kernel's others,
    and `launches`, of the form; `file`, `line`, `kind`; `bits` that a thread accesses at once, and
    `possible_bits`, what addresses would allow; `sectors_per_request` of 32 bytes and
    `ideal_per_request`, the fewest; `efficiency`, the share of the bytes moved that could not be
    left out; `active`, the share of the requests' lanes in use; `shared_by`, by how many programs
    a byte is touched on average, and `again`, how often a program
    touches it; `layout` of the tile; `sampled`, whether only some tiles were looked at.

    Args:
        found: the columns of each form, and its accesses.
    """
    rows = [{**form, **_row(each)} for form, accesses in found for each in accesses]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).sort_values(
        ["kernel", "config", "file", "line"], ignore_index=True, kind="stable"
    )


#: Of a form.
FORM = ("kernel", "config", "grid", "specialisation", "launches")
_COLUMNS = (
    *FORM,
    *("file", "line", "kind", "bits", "possible_bits", "sectors_per_request"),
    *("ideal_per_request", "efficiency", "active", "shared_by", "again", "layout", "sampled"),
)


def _row(access: AccessQuality) -> dict[str, Any]:
    location = access.location
    return {
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
