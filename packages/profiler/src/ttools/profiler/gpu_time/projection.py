"""Projections of launch times on a GPU that need not be present, with an interval and caveats.

The profiler reports the projections, and the tuner ranks configurations by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.machine_code import MachineCode
from ttools.core.gpus.devices import Device
from ttools.core.gpus.launch_rules import GpuNeeds, broken_rules, limits_of
from ttools.core.reports.numbers import is_known, seconds, seconds_interval
from ttools.profiler.access.requests import AccessQuality
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.units import unit_of
from ttools.profiler.gpu_time.work import Access, Blocks, work_of

ASSUMPTIONS = (
    "instructions of the compiled kernel are multiplied by the trip counts of its loops; data that "
    "fits in the last-level cache is there when the launch begins; of kernels that the model was "
    "not fitted to, nine in ten were within the interval"
)
#: The devices to which the constants were fitted.
_FITTED = ("h100", "h200")
#: Ratios of measured to projected times, for kernels that were left out of the fit: the interval
#: that contains nine in ten ratios, and the extremes, which are shown for kernels that are unlike
#: the fitted kernels.
WITHIN, AT_MOST = (0.73, 1.49), (0.55, 2.38)
#: Instructions that occur in the launches of the fit. Integer arithmetic is omitted: all of its
#: instructions take about the same time, so an unknown integer instruction does not make the
#: estimate doubtful.
_SEEN = frozenset(
    name
    for names in (
        "ATOMS BAR BSYNC DEPBAR DFMA F2FP F2I FADD FENCE FFMA FMUL HADD2 HFMA2 HGMMA I2F I2FP",
        "LDG LDGDEPBAR LDGSTS LDL LDS LDSM MEMBAR MUFU POPC REDG REDUX SHFL STG STL STS STSM",
        "VOTE VOTEU WARPGROUP",
    )
    for name in names.split()
)
_ALIKE = ("integer", "add", "move", "uniform", "product", "control")


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The projected time of a launch.

    Attributes:
        seconds: Projected time of the launch.
        low: Lower end of the interval that contains nine of ten measured times.
        high: Upper end of this interval.
        outside: Phrases that say why the projection of this launch is less certain.
    """

    seconds: float
    low: float
    high: float
    outside: tuple[str, ...] = ()


def projection_text(
    projected: float | None, low: float, high: float, outside: str, *, star: bool = False
) -> str:
    """Return a projected time with its interval, and the reasons why it is less certain.

    Args:
        projected: Projected seconds; None or NaN if there is no projection, which gives an empty
            text.
        low: Lower end of the interval.
        high: Upper end of the interval.
        outside: The reasons why the projection is less certain; empty if there are none.
        star: If True, a star replaces the reasons.
    """
    if not is_known(projected):
        return ""
    why = f"; less certain: it {outside}" if outside and not star else ""
    mark = "*" if outside and star else ""
    return f"{seconds(projected)}{mark} ({seconds_interval(low, high)}){why}"


def project(
    counts: WorkCounts,
    inspection: Inspection,
    device: Device,
    accesses: Sequence[AccessQuality] = (),
) -> Projection:
    """Return the projected time of a launch.

    Args:
        counts: Work of the launch.
        inspection: The launched kernel, compiled for the device.
        accesses: Memory accesses of the launch by the device's warps. If there are none, every
            sector is assumed to be fully used.

    Raises:
        TtoolsError: NVIDIA's binary tools are not installed.
    """
    code, resources = inspection.machine_code, inspection.resources
    occupancy = inspection.occupancy
    blocks = Blocks(
        warps=resources.warps,
        resident=occupancy.blocks if occupancy else 1,
        shared=resources.shared,
        spilled=resources.spilled * resources.threads,
    )
    work = work_of(counts, code, blocks, [access_of(access) for access in accesses], device)
    own = float(seconds_of(work, Constants()))
    outside = tuple(_outside(inspection, code, device))
    low, high = AT_MOST if outside else WITHIN
    return Projection(seconds=own, low=own * low, high=own * high, outside=outside)


def refusal(inspection: Inspection, grid: Sequence[int]) -> str | None:
    """Return the reason why the device cannot run a launch; None if it can run it.

    Args:
        inspection: The launched kernel, compiled for the device.
        grid: Number of programs along each of up to three axes.
    """
    cluster = inspection.compilation.metadata.get("num_ctas")
    limits = limits_of(inspection.target, inspection.resources.warps)
    broken = [
        *inspection.broken_rules,
        *broken_rules(GpuNeeds(grid=grid, cluster=cluster), limits),
    ]
    return "; ".join(dict.fromkeys(rule.message for rule in broken)) or None


def is_projected(device: Device | None) -> bool:
    """Return whether times on a device can be projected from machine code."""
    return device is not None and device.target.backend == "cuda"


def access_of(quality: AccessQuality) -> Access:
    """Return the properties of an access that the model uses."""
    ideal, tile_ideal = quality.ideal, quality.tile_ideal
    return Access(
        kind=quality.trace.kind,
        requested=quality.trace.requested,
        sectors=quality.sectors / ideal if ideal else 1.0,
        tile_sectors=quality.tile_sectors / tile_ideal if tile_ideal else 1.0,
    )


def _outside(inspection: Inspection, code: MachineCode | None, device: Device) -> Iterator[str]:
    if device.name not in _FITTED:
        yield f"is scaled from {' and '.join(_FITTED)} by published rates"
    if code is None:
        yield "is estimated from counts, because its machine code was not read"
        return
    executed = {
        instruction.name: unit_of(instruction)
        for instruction in code.instructions
        if not instruction.rare
    }
    if "local" in executed.values():
        yield "spills registers"
    if inspection.plain_dots:
        yield "computes products without matrix units"
    if "shared atomic" in executed.values():
        yield "has atomics in shared memory"
    unseen = [n for n, unit in executed.items() if n not in _SEEN and unit not in _ALIKE]
    if unseen:
        yield f"executes {', '.join(sorted(unseen))}, which no measured launch does"
