"""Measures the speedup from the profiler's advice: runs the kernels of `advice_pairs.py` on a GPU.

    python benchmarks/advice_gain.py

Times are medians of Proton's kernel times under `ttools profile` without counts. The column
`evidence before` comes from a profile with counts, for smaller inputs. Needs an NVIDIA GPU.
"""

from __future__ import annotations

import torch
import triton
from advice_pairs import PAIRS, Launch

from ttools.profiler import profile

LAUNCHES = 50


def seconds(launch: Launch) -> float:
    """Return the median time of a launch in seconds."""
    for _ in range(3):
        launch.run()
    torch.cuda.synchronize()
    with profile(counts=False) as prof:
        for _ in range(LAUNCHES):
            launch.run()
    frame = prof.analyse().frame
    return float(frame[frame["launches"] == LAUNCHES]["median_s"].iloc[0])


def evidence(launch: Launch, kind: str) -> str:
    with profile() as prof:
        launch.run()
    return "; ".join(hint.evidence for hint in prof.analyse().advice if hint.kind == kind)


def main() -> None:
    print(torch.cuda.get_device_name(), "triton", triton.__version__)
    print("| hint | before | after | gain | evidence before |")
    print("|---|---:|---:|---:|---|")
    for pair in PAIRS:
        before, after = pair.make("cuda", False)
        times = [seconds(launch) for launch in (before, after)]
        close = torch.allclose(before.out.float(), after.out.float(), rtol=2e-2, atol=1e-2)
        small_before, small_after = pair.make("cuda", True)
        given, remaining = evidence(small_before, pair.kind), evidence(small_after, pair.kind)
        note = "" if close else " (results differ!)"
        note += " (still given after!)" if remaining else ""
        print(
            f"| {pair.kind} | {times[0] * 1e6:,.1f} us | {times[1] * 1e6:,.1f} us "
            f"| {times[0] / times[1]:.2f}x | {given}{note} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
