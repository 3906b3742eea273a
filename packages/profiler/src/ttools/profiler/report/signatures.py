"""Groups launches by launch signature: specialisation of the kernel, grid and work.

Figures are computed per signature. A `SignatureKey` identifies a signature in all tables.
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

#: The largest number of signatures per kernel and configuration that are analysed for a target.
MOST = 256


class SignatureKey(NamedTuple):
    """Identifies a launch signature within a run.

    Attributes:
        kernel: Name of the kernel.
        config: Configuration of an autotuner, as text; empty without one.
        source: The specialisation; None if it is unknown.
        grid: Number of programs along each axis.
        work: A key of the work, see `_work`; None if the launches were not counted.
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
        sample: The first launch of the signature.
        launches: Number of launches with the signature.
        seconds: Total time of these launches.
    """

    key: SignatureKey
    sample: Sample
    launches: int = 0
    seconds: float = 0.0

    @property
    def requested(self) -> int:
        """Return how many bytes a launch requests; -1 if this is unknown."""
        return requested(self.sample)

    @property
    def grid(self) -> str:
        """Return the grid as text, such as `64x2`, without the trailing ones that Triton adds."""
        extents = list(self.key.grid)
        while len(extents) > 1 and extents[-1] == 1:
            extents.pop()
        return "x".join(map(str, extents))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Facts about the launches of one signature on a target.

    Attributes:
        inspection: The kernel, compiled for the target.
        accesses: Accesses to memory by one of the launches.
        counts: Work of that launch; None if the counts are estimates.
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
    """Return how many bytes a launch requests; -1 if this is unknown."""
    return sample.counts.total.bytes if sample.counts else -1


def signatures_of(
    samples: Iterable[Sample], variants: Mapping[Any, KernelSource] = MappingProxyType({})
) -> dict[tuple[str, str], list[SignatureStats]]:
    """Return the signatures of each kernel and configuration, by requested bytes in falling order.

    Args:
        samples: Launches of a run.
        variants: The specialisation of each sample, see `Sample.variant`; unknown by default.
    """
    groups: dict[tuple[str, str], dict[SignatureKey, SignatureStats]] = {}
    for sample in samples:
        source = variants.get(sample.variant) if sample.variant is not None else None
        config = config_text(sample.config)
        key = SignatureKey(sample.kernel, config, source, sample.grid, _work(sample))
        signatures = groups.setdefault((sample.kernel, config), {})
        signature = signatures.setdefault(key, SignatureStats(key=key, sample=sample))
        signature.launches += sample.launches
        signature.seconds += sample.seconds
    return {
        key: sorted(signatures.values(), key=lambda signature: -signature.requested)
        for key, signatures in groups.items()
    }


def most_requesting(signatures: Sequence[SignatureStats]) -> list[SignatureStats]:
    """Return the `MOST` signatures of a kernel that request the most bytes in total, in order."""
    most = sorted(signatures, key=lambda signature: -signature.requested * signature.launches)[
        :MOST
    ]
    chosen = {signature.key for signature in most}
    return [signature for signature in signatures if signature.key in chosen]


def _work(sample: Sample) -> object:
    """Return a key that is equal for launches with equal work."""
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
    """Yield the facts about the signatures of a kernel and configuration on a target.

    Args:
        signatures: Signatures of counted launches.
        compiled: The compiled specialisations of all kernels.
        estimated: True if some counts were taken from other launches; accesses and counts are then
            left out.
    """
    for signature in most_requesting(signatures):
        key, counts = signature.key, signature.sample.counts
        assert counts is not None
        named = [
            kernel
            for kernel in compiled
            if kernel.source.name == key.kernel and is_of(kernel, key.config)
        ]
        exact = [kernel for kernel in named if kernel.source == key.source]
        candidates = [
            (kernel, access_qualities(counts.accesses, kernel)) for kernel in exact or named
        ]
        if candidates:
            inspection, accesses = max(candidates, key=lambda pair: len(pair[1]))
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
    settings = {names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    settings |= source.options
    pairs = (pair.partition("=") for pair in config.split(", ") if pair)
    return all(name not in settings or str(settings[name]) == value for name, _, value in pairs)


def distinguishing_parts(sources: Sequence[KernelSource]) -> dict[KernelSource, str]:
    """Return a string for each specialisation of a kernel that distinguishes it from the others.

    The string consists of parameters and options, as in `n: constant 1; x_ptr, y_ptr: *fp16`.
    """
    every = [
        {**source.parameters(), **{name: str(value) for name, value in source.options.items()}}
        for source in sources
    ]
    names = dict.fromkeys(name for properties in every for name in properties)
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        values = _own_parts([properties.get(name, "") for properties in every])
        if len(set(values)) > 1:
            alike.setdefault(values, []).append(name)
    return {
        source: "; ".join(f"{', '.join(own)}: {values[n]}" for values, own in alike.items())
        for n, source in enumerate(sources)
    }


def _own_parts(values: Sequence[str]) -> tuple[str, ...]:
    """Return each text without the parts that all texts have in common.

    A text of which nothing remains is replaced by, for example, `not divisible by 16` if another
    text has the part `divisible by 16`.
    """
    parts = [value.split(", ") for value in values]
    common = set(parts[0]).intersection(*parts)
    own = [", ".join(part for part in text if part not in common) for text in parts]
    other = next(filter(None, own), "")
    return tuple(text or (f"not {other}" if other else "") for text in own)
