"""What `ttools profile compare` notices: a planted slowdown of 5%, and false alarms.

    python benchmarks/compare_power.py [PAIRS]

Profiles a kernel on the GPU twice per pair, unchanged and with 5% more turns of its loop, and
counts how often the second run is called slower, for several thresholds. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import sys
import time

import torch
import triton
import triton.language as tl

from ttools.profiler import profile
from ttools.profiler.report.comparison import Key, compare

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

LAUNCHES, TURNS = 50, 4000
THRESHOLDS = (0.0, 0.01, 0.02, 0.03)


@triton.jit
def turning_kernel(x_ptr, turns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    for _ in range(turns):
        x = x * 0.999 + 0.001
    tl.store(x_ptr + offsets, x)


def run(x: torch.Tensor, turns: int) -> dict[Key, list[list[float]]]:
    with profile(counts=False) as prof:
        for _ in range(LAUNCHES):
            turning_kernel[(x.numel() // 256,)](x, turns, BLOCK=256)
    return {key: [seconds] for key, seconds in prof.seconds_by_scope.items()}


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(torch.cuda.get_device_name(), "triton", triton.__version__)
    x = torch.ones(132 * 256 * 8, device="cuda")
    for _ in range(200):  # warm
        turning_kernel[(x.numel() // 256,)](x, TURNS, BLOCK=256)
    start = time.perf_counter()
    base = [run(x, TURNS) for _ in range(pairs)]
    unchanged = [run(x, TURNS) for _ in range(pairs)]
    slowed = [run(x, TURNS * 105 // 100) for _ in range(pairs)]
    each = (time.perf_counter() - start) / (3 * pairs)
    ((_, (seconds,)),) = base[0].items()
    taken = sorted(seconds)[LAUNCHES // 2] * 1e6
    print(f"{pairs} pairs of {LAUNCHES} launches of {taken:.1f} us, {each:.2f} s a profile")
    print("| threshold | false alarms | planted 5% caught |")
    print("|---:|---:|---:|")
    for threshold in THRESHOLDS:
        alarms, caught = (
            sum(
                change.verdict == "slower"
                for before, after in zip(base, other, strict=True)
                for change in compare(before, after, threshold)
            )
            for other in (unchanged, slowed)
        )
        print(f"| {threshold:.0%} | {alarms} of {pairs} | {caught} of {pairs} |")


if __name__ == "__main__":
    main()
