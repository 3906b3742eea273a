"""Measures how many atomic additions per second a GPU performs on one element.

    python benchmarks/atomics.py            # on an NVIDIA GPU, under a minute
    python benchmarks/atomics.py --check    # anywhere: only check that no update is lost

GPU vendors do not publish this rate. Each row of the output is a type and an access pattern.
Programs add scalars (one thread of each program) or tiles (all lanes of each warp). The target is
one element, several elements of one 32-byte sector, or one element in each of several sectors. The
columns are updates per second, updates per clock cycle of a multiprocessor, and updates per second
of each element. The last line has the format of `core/gpus/products.py`: for each type, it contains
the greatest rate on one element, which is an upper bound for every pattern.
"""

from __future__ import annotations

# Kernels have no annotations except `constexpr`.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import argparse
import statistics
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

TYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.float32: "f32",
    torch.int64: "i64",
    torch.float64: "f64",
}
SECTOR, WARP = 32, 32
TIMES = 7


@triton.jit
def scalar_kernel(out_ptr, PLACES: tl.constexpr, STRIDE: tl.constexpr, TURNS: tl.constexpr):
    """Add scalars: each program adds to one of PLACES elements that are STRIDE elements apart."""
    at = out_ptr + tl.program_id(0) % PLACES * STRIDE
    for _ in range(TURNS):
        tl.atomic_add(at, 1, sem="relaxed")


@triton.jit
def tile_kernel(
    out_ptr,
    PLACES: tl.constexpr,
    STRIDE: tl.constexpr,
    PACKED: tl.constexpr,
    TURNS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Add tiles: adjacent lanes, or pairs of lanes if PACKED is 2, add to adjacent places."""
    lane = tl.arange(0, LANES)
    at = out_ptr + lane // PACKED % PLACES * STRIDE + lane % PACKED
    one = tl.full([LANES], 1, out_ptr.dtype.element_ty)
    for _ in range(TURNS):
        tl.atomic_add(at, one, sem="relaxed")


@triton.jit
def clock_kernel(out_ptr, TURNS: tl.constexpr):
    """Store the numbers of clock cycles and nanoseconds that a loop of TURNS iterations takes."""
    clock = tl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    time = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    value = time
    for _ in range(TURNS):
        value = value * 3 + 1
    tl.store(out_ptr + 2, value)
    later_clock = tl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    later = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    tl.store(out_ptr, later_clock - clock)
    tl.store(out_ptr + 1, later - time)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pattern of atomic additions that all programs execute.

    Attributes:
        dtype: Type of the elements.
        tiles: If True, all lanes of each warp add; otherwise, one thread of each program.
        places: Number of elements, or pairs of 16-bit elements, that receive additions.
        stride: Distance between consecutive places in elements.
    """

    dtype: torch.dtype
    tiles: bool
    places: int
    stride: int

    @property
    def packed(self) -> int:
        """Return the number of elements that one instruction of a thread updates."""
        return 2 if self.tiles and self.dtype.itemsize == 2 else 1

    def launch(self, out: torch.Tensor, programs: int, turns: int, warps: int) -> int:
        """Launch the kernel; return the number of updates that it makes."""
        sizes = {"PLACES": self.places, "STRIDE": self.stride, "TURNS": turns}
        if not self.tiles:
            scalar_kernel[(programs,)](out, **sizes, num_warps=1)
            return programs * turns
        lanes = warps * WARP * self.packed
        tile_kernel[(programs,)](out, **sizes, PACKED=self.packed, LANES=lanes, num_warps=warps)
        return programs * turns * lanes

    def __str__(self) -> str:
        how = "tiles" if self.tiles else "scalars"
        where = f"{self.places} elements" if self.places > 1 else "one element"
        if self.packed > 1:
            where = f"{self.places} pairs" if self.places > 1 else "one pair"
        if self.places > 1:
            one = self.places * self.stride * self.dtype.itemsize <= SECTOR
            where += " of one sector" if one else " of different sectors"
        return f"{str(self.dtype).removeprefix('torch.'):9}{how:9}{where}"


def cases() -> list[Case]:
    patterns = []
    for dtype in TYPES:
        sector = SECTOR // dtype.itemsize
        for tiles in (False, True):
            packed = 2 if tiles and dtype.itemsize == 2 else 1
            near = sector // packed
            patterns += [
                Case(dtype=dtype, tiles=tiles, places=1, stride=packed),
                Case(dtype=dtype, tiles=tiles, places=near, stride=packed),
                Case(dtype=dtype, tiles=tiles, places=near, stride=sector),
                Case(dtype=dtype, tiles=tiles, places=WARP, stride=sector),
            ]
    return patterns


def check() -> None:
    """Raise an error if an update is lost; bfloat16 represents the sums, at most 256, exactly."""
    for case in cases():
        out = torch.zeros(WARP * SECTOR, dtype=case.dtype)
        made = case.launch(out, programs=4, turns=1, warps=1)
        assert out.double().sum().item() == made, (str(case), out.double().sum().item(), made)
        touched = int((out != 0).sum())
        assert touched == min(case.places * case.packed, 4 if not case.tiles else WARP * 2), case
    print(f"{len(cases())} cases make all their updates")


def clock_rate() -> float:
    """Return the clock rate of a multiprocessor under load, in Hz."""
    out = torch.zeros(3, dtype=torch.int64, device="cuda")
    rates: list[float] = []
    for _ in range(TIMES):
        clock_kernel[(1,)](out, TURNS=1 << 20)
        clocks, nanoseconds = out[:2].tolist()
        rates.append(clocks / nanoseconds * 1e9)
    return statistics.median(rates)


def seconds_of(case: Case, programs: int, turns: int) -> tuple[float, int]:
    """Return the median time of a launch on the GPU's clock, and the number of updates it makes."""
    out = torch.zeros(WARP * SECTOR, dtype=case.dtype, device="cuda")
    case.launch(out, programs, turns, warps=4)
    taken, made = [], 0
    for _ in range(TIMES):
        event: Any = torch.cuda.Event
        begin, end = event(enable_timing=True), event(enable_timing=True)
        begin.record()
        made = case.launch(out, programs, turns, warps=4)
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(taken), made


def measure() -> None:
    properties: Any = torch.cuda.get_device_properties(0)
    programs = 8 * properties.multi_processor_count
    clock = clock_rate()
    print(f"{torch.cuda.get_device_name()}, {clock / 1e9:.2f} GHz; triton {triton.__version__}")
    print(f"{'type':9}{'as':9}{'to':32}{'updates/s':>12}{'per clock':>12}{'of per_element/s':>12}")
    most: dict[str, float] = {}
    for case in cases():
        turns = 64
        seconds, made = seconds_of(case, programs, turns)
        if seconds < 2e-3:  # the overhead of the launch is not negligible
            turns *= min(64, int(4e-3 / seconds) + 1)
            seconds, made = seconds_of(case, programs, turns)
        rate = made / seconds
        per_element = rate / case.places / case.packed
        if case.places == 1:
            element = TYPES[case.dtype]
            most[element] = max(most.get(element, 0.0), per_element)
        print(f"{case!s:50}{rate:12.3g}{rate / clock:12.2f}{per_element:12.3g}", flush=True)
    print({f"atomics on one address ({name})": f"{n / 1e12:.3g}" for name, n in most.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only check that no update is lost")
    check() if parser.parse_args().check else measure()


if __name__ == "__main__":
    main()
