"""Projected times of launches on a GPU that is not present, with an interval and its caveats.

The profiler shows them, and the tuner ranks configurations by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.machine_code import MachineCode
from ttools.core.gpus.devices import Device
from ttools.core.gpus.launch_rules import GpuNeeds, broken_rules, limits_of
from ttools.profiler.access.requests import AccessQuality
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.units import unit_of
from ttools.profiler.gpu_time.work import Access, Blocks, Work, work_of

ASSUMPTIONS = (
    "instructions of the compiled kernel, times the trip counts of its loops; data that fits the "
    "last level of cache is in it before the launch begins; kernels that the model was not fitted "
    "to were within the interval nine times in ten"
)
#: The devices to which the constants were fitted.
_FITTED = ("h100", "h200")
#: Ratios of measured to projected times of kernels that were left out of the fit: the interval of
#: nine in ten, and the extremes, which are shown for kernels unlike the fitted ones.
WITHIN, AT_MOST = (0.73, 1.49), (0.55, 2.38)
#: The instructions in the launches of the fit, without integer arithmetic, which is all alike.
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
        seconds: Projected time.
        low: Lower end of the interval that contains nine of ten measured times.
        high: Upper end of this interval.
        outside: Phrases on why the model is less certain of this launch.
    """

    seconds: float
    low: float
    high: float
    outside: tuple[str, ...] = ()


def project(
    counts: WorkCounts,
    inspection: Inspection,
    device: Device,
    accesses: Sequence[AccessQuality] = (),
    *,
    cold: bool = False,
) -> Projection:
    """Return the projected time of a launch.

    Args:
        inspection: Its kernel, compiled for the device.
        accesses: Its accesses by the warps of the device; without them, no sector is wasted.
        cold: If True, no cache holds data before the launch, as when tuners time configurations.

    Raises:
        TtoolsError: NVIDIA's binary tools are not there.
    """
    work = asked_of(counts, inspection, device, accesses, cold=cold)
    seconds = float(seconds_of(work, Constants()))
    outside = tuple(_outside(inspection, inspection.machine_code, device))
    low, high = AT_MOST if outside else WITHIN
    return Projection(seconds=seconds, low=seconds * low, high=seconds * high, outside=outside)


def refusal(inspection: Inspection, grid: Sequence[int]) -> str | None:
    """Return why the device cannot make a launch, so that nothing is projected; None if it can.

    Args:
        inspection: The kernel, compiled for the device.
        grid: Programs along up to three axes.
    """
    cluster = inspection.compilation.metadata.get("num_ctas")
    limits = limits_of(inspection.target, inspection.resources.warps)
    broken = [
        *inspection.broken_rules,
        *broken_rules(GpuNeeds(grid=grid, cluster=cluster), limits),
    ]
    return "; ".join(dict.fromkeys(each.message for each in broken)) or None


def asked_of(
    counts: WorkCounts,
    inspection: Inspection,
    device: Device,
    accesses: Sequence[AccessQuality],
    *,
    cold: bool,
) -> Work:
    """Return the work of a launch for a device; arguments are those of `project`."""
    code, occupancy = inspection.machine_code, inspection.occupancy
    resources = inspection.resources
    blocks = Blocks(
        warps=resources.warps,
        resident=occupancy.blocks if occupancy else 1,
        shared=resources.shared,
        spilled=resources.spilled * resources.threads,
    )
    work = work_of(counts, code, blocks, [access_of(each) for each in accesses], device)
    return replace(work, held=0.0) if cold else work


def is_projected(device: Device | None) -> bool:
    """Return whether times on a device can be projected from machine code."""
    return device is not None and device.target.backend == "cuda"


def access_of(quality: AccessQuality) -> Access:
    """Return an access in the form that the model uses."""
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
        yield "is estimated from counts, as its machine code is not read"
        return
    executed = {each.name: unit_of(each) for each in code.instructions if not each.rare}
    if "local" in executed.values():
        yield "spills registers"
    if inspection.plain_dots:
        yield "computes products without matrix units"
    if "shared atomic" in executed.values():
        yield "has atomics in shared memory"
    unseen = [n for n, unit in executed.items() if n not in _SEEN and unit not in _ALIKE]
    if unseen:
        yield f"executes {', '.join(sorted(unseen))}, as no measured launch does"
