"""Launch signatures: launches of one specialisation of a kernel, of one grid, that do the same.

A kernel's figures are computed for each of them, and rows of different tables are joined by
`SignatureKey`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.reports.report import config_text
from ttools.profiler.access.requests import AccessQuality, access_qualities
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.run.session import Sample

#: Signatures of a kernel and configuration that are analysed for a target: those that request most.
MOST = 256


class SignatureKey(NamedTuple):
    """Identifies a launch signature within a run.

    Attributes:
        config: Configuration of an autotuner, as text.
        source: What was compiled for it; None where that is unknown.
        work: What its launches do, see `_work`; None where they were not counted.
    """

    kernel: str
    config: str
    source: KernelSource | None
    grid: tuple[int, ...]
    work: object


@dataclass(kw_only=True)
class SignatureStats:
    """The launches of one signature.

    Attributes:
        sample: The first of them.
        launches: How many there are.
        seconds: What they took together.
    """

    key: SignatureKey
    sample: Sample
    launches: int = 0
    seconds: float = 0.0

    @property
    def requested(self) -> int:
        """Bytes that a launch requests; -1 where that is unknown."""
        return requested(self.sample)

    @property
    def grid(self) -> str:
        """The grid as `64x2`, without ones at the end, which Triton adds."""
        extents = list(self.key.grid)
        while len(extents) > 1 and extents[-1] == 1:
            extents.pop()
        return "x".join(map(str, extents))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of the launches of one signature on a target.

    Attributes:
        inspection: What the target's compiler makes of the kernel.
        accesses: To memory, by one of the launches.
        counts: Of that launch; None where nothing may be concluded from counts.
    """

    signature: SignatureStats
    inspection: Inspection
    accesses: Sequence[AccessQuality]
    counts: WorkCounts | None

    @property
    def kernel(self) -> str:
        """Return the name of the kernel."""
        return self.signature.key.kernel

    @property
    def config(self) -> str:
        """Return the configuration of the autotuner, as text."""
        return self.signature.key.config


def requested(sample: Sample) -> int:
    """Return the bytes that a launch requests; -1 where that is unknown."""
    return sample.counts.total.bytes if sample.counts else -1


def signatures_of(
    samples: Iterable[Sample], variants: Mapping[Any, KernelSource] = MappingProxyType({})
) -> dict[tuple[str, str], list[SignatureStats]]:
    """Return the signatures of each kernel and configuration, those that request most first.

    Args:
        samples: Launches of a run.
        variants: What was compiled for each, see `Sample.variant`; by default this is unknown.
    """
    found: dict[tuple[str, str], dict[SignatureKey, SignatureStats]] = {}
    for sample in samples:
        source = variants.get(sample.variant) if sample.variant is not None else None
        config = config_text(sample.config)
        key = SignatureKey(sample.kernel, config, source, sample.grid, _work(sample))
        signatures = found.setdefault((sample.kernel, config), {})
        signature = signatures.setdefault(key, SignatureStats(key=key, sample=sample))
        signature.launches += sample.launches
        signature.seconds += sample.seconds
    return {
        key: sorted(signatures.values(), key=lambda each: -each.requested)
        for key, signatures in found.items()
    }


def most_requesting(signatures: Sequence[SignatureStats]) -> list[SignatureStats]:
    """Return the signatures of a kernel that are worth analysing where they are many, in order."""
    most = sorted(signatures, key=lambda each: -each.requested * each.launches)[:MOST]
    chosen = {each.key for each in most}
    return [each for each in signatures if each.key in chosen]


def _work(sample: Sample) -> object:
    """Return an object that is equal for launches that do the same."""
    counts = sample.counts
    if counts is None:
        return None
    total = counts.total
    return (
        counts.estimated,
        *(counts.unique_loaded, counts.unique_stored, total.loaded, total.stored, total.atomic),
        *(total.lanes, total.masked_off, tuple(sorted(total.operations.items()))),
    )


def evidence_of(
    signatures: Sequence[SignatureStats], compiled: Sequence[Inspection], *, estimated: bool
) -> Iterator[Evidence]:
    """Return what is known of the signatures of a kernel and configuration on a target.

    Args:
        signatures: Of launches that were counted.
        compiled: What the target's compiler makes of the specialisations of all kernels.
        estimated: True if some counts are of other launches: then nothing is concluded from any.
    """
    for signature in most_requesting(signatures):
        key, counts = signature.key, signature.sample.counts
        assert counts is not None
        named = [
            each for each in compiled if each.source.name == key.kernel and is_of(each, key.config)
        ]
        exact = [each for each in named if each.source == key.source]
        found = [(each, access_qualities(counts.accesses, each)) for each in exact or named]
        if found:
            inspection, accesses = max(found, key=lambda pair: len(pair[1]))
            yield Evidence(
                signature=signature,
                inspection=inspection,
                accesses=() if estimated else accesses,
                counts=None if estimated else counts,
            )


def is_of(inspection: Inspection, config: str) -> bool:
    """Return whether a kernel was compiled with an autotuner's configuration, given as text."""
    source = inspection.source
    names = list(source.signature)
    known = {names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    known |= source.options
    pairs = (pair.partition("=") for pair in config.split(", ") if pair)
    return all(name not in known or str(known[name]) == value for name, _, value in pairs)


def distinguishing_parts(sources: Sequence[KernelSource]) -> dict[KernelSource, str]:
    """Return, for each of a kernel's specialisations, what the others do not have.

    As in `n: constant 1; x_ptr, y_ptr: *fp16`, of parameters and options.
    """
    every = [
        {**each.parameters(), **{name: str(value) for name, value in each.options.items()}}
        for each in sources
    ]
    names = dict.fromkeys(name for each in every for name in each)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        values = _own_parts([each.get(name, "") for each in every])
        if len(set(values)) > 1:
            alike.setdefault(values, []).append(name)
    return {
        source: "; ".join(f"{', '.join(own)}: {values[n]}" for values, own in alike.items())
        for n, source in enumerate(sources)
    }


def _own_parts(values: Sequence[str]) -> tuple[str, ...]:
    """Return each without the parts that all have; `not divisible by 16` for what others have."""
    parts = [value.split(", ") for value in values]
    common = set(parts[0]).intersection(*parts)
    own = [", ".join(part for part in each if part not in common) for each in parts]
    other = next(filter(None, own), "")
    return tuple(each or (f"not {other}" if other else "") for each in own)
