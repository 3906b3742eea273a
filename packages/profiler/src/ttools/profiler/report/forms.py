"""Forms of launches: those of a kernel that are one specialisation, have one grid and do the same.

A kernel's figures are shown for each of them. Must not know what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.reports.report import config_text
from ttools.profiler.run.session import Sample

#: Of a kernel and configuration what is judged: those that request most in all their launches.
MOST = 256


@dataclass(kw_only=True)
class Form:
    """Launches that do the same.

    Attributes:
        sample: the first of them.
        source: what was compiled for them; None where that is unknown.
        seconds: that they took together.
    """

    sample: Sample
    source: KernelSource | None
    launches: int = 0
    seconds: float = 0.0

    @property
    def requested(self) -> int:
        """Bytes that a launch requests; -1 where that is unknown."""
        return requested(self.sample)


def requested(sample: Sample) -> int:
    """Bytes that a launch requests; -1 where that is unknown."""
    return sample.counts.total.bytes if sample.counts else -1


def forms_of(
    samples: Sequence[Sample], variants: Mapping[int, KernelSource] = MappingProxyType({})
) -> dict[tuple[str, str], list[Form]]:
    """The forms of each kernel and configuration, those that request most first.

    Args:
        variants: what was compiled for each sample, see `Sample.variant`.
    """
    found: dict[tuple[str, str], dict[object, Form]] = {}
    for sample in samples:
        source = variants.get(sample.variant) if sample.variant is not None else None
        own = found.setdefault((sample.kernel, config_text(sample.config)), {})
        key = id(source), sample.grid, _done(sample)
        form = own.setdefault(key, Form(sample=sample, source=source))
        form.launches += sample.launches
        form.seconds += sample.seconds
    return {
        key: sorted(own.values(), key=lambda form: -form.requested) for key, own in found.items()
    }


def judged(forms: Sequence[Form]) -> list[Form]:
    """Those of a kernel's forms, in their order, that are worth judging where they are many."""
    most = sorted(forms, key=lambda form: -form.requested * form.launches)[:MOST]
    chosen = {id(form) for form in most}
    return [form for form in forms if id(form) in chosen]


def _done(sample: Sample) -> object:
    """What tells the counts of two launches apart."""
    counts = sample.counts
    if counts is None:
        return None
    total = counts.total
    operations = tuple(sorted(total.operations.items()))
    return (
        counts.estimated,
        *(counts.unique_loaded, counts.unique_stored, total.loaded, total.stored, total.atomic),
        *(total.lanes, total.masked_off, operations),
    )


def told_apart(sources: Sequence[KernelSource]) -> dict[int, str]:
    """By `id` of each of a kernel's specialisations what the others do not have.

    As in `n: constant 1; x_ptr, y_ptr: *fp16`, of parameters and options.
    """
    every = [{**each.parameters(), **_options(each)} for each in sources]
    names = dict.fromkeys(name for each in every for name in each)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        values = _own_parts([each.get(name, "") for each in every])
        if len(set(values)) > 1:
            alike.setdefault(values, []).append(name)
    return {
        id(source): "; ".join(f"{', '.join(own)}: {values[n]}" for values, own in alike.items())
        for n, source in enumerate(sources)
    }


def _own_parts(values: Sequence[str]) -> tuple[str, ...]:
    """Each without the parts that all have; `not divisible by 16` for what others have."""
    parts = [value.split(", ") for value in values]
    common = set(parts[0]).intersection(*parts)
    own = [", ".join(part for part in each if part not in common) for each in parts]
    other = next(filter(None, own), "")
    return tuple(each or (f"not {other}" if other else "") for each in own)


def _options(source: KernelSource) -> dict[str, str]:
    return {name: str(value) for name, value in source.options.items()}
