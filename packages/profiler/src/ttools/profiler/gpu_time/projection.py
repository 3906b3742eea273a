"""How long launches would take on a GPU that is not there, with an interval and what speaks
against it.

The profiler shows it, the tuner ranks configurations by it. Joins what is known of a launch and its
kernel to the model.
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
    "instructions of the compiled kernel, times the turns of its loops; data that fits the last "
    "level of cache is in it before the launch begins; kernels that the model was not fitted to "
    "were within the interval nine times in ten"
)
#: Of the devices that the constants were fitted to.
_FITTED = ("h100", "h200")
#: By what a kernel that the constants were not fitted to may take longer or shorter than projected,
#: nine times in ten; and at most, which is said of those that are outside of what was fitted.
WITHIN, AT_MOST = (0.73, 1.49), (0.55, 2.38)
#: The instructions of the launches that the constants were fitted to, but those of arithmetic on
#: integers, which are alike.
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
    """A time of a launch that was not made.

    Attributes:
        seconds: that it takes.
        low: at least, nine times in ten.
        high: at most, nine times in ten.
        outside: why the model says less of it than of others, a phrase each.
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
    """The time of a launch.

    Args:
        inspection: of its kernel, compiled for the device.
        accesses: of the launch, as the device's warps make them; without, no sector is wasted.
        cold: whether nothing of the data is in a cache before the launch begins, as where tuners
            time configurations.

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
    """What a launch asks of a device, as `project` takes it."""
    code, held = inspection.machine_code, inspection.occupancy
    own = inspection.resources
    blocks = Blocks(
        warps=own.warps,
        resident=held.blocks if held else 1,
        shared=own.shared,
        spilled=own.spilled * own.threads,
    )
    work = work_of(counts, code, blocks, [access_of(each) for each in accesses], device)
    return replace(work, held=0.0) if cold else work


def is_projected(device: Device | None) -> bool:
    """Whether there is machine code to project times on a device by."""
    return device is not None and device.target.backend == "cuda"


def access_of(quality: AccessQuality) -> Access:
    """An access as the model takes it."""
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
