"""Whether profiles on a GPU leave out what autotuners only try.

    python benchmarks/profiling/trials.py            # on an NVIDIA GPU, under a minute

A kernel is tuned by `triton.testing.do_bench`, which flushes the cache between trials, and by CUDA
graphs; between and after that the program launches it, and operations of torch. Prints what each
profile has and has left out, and ends with status 1 where that is not the program's own launches.
"""

from __future__ import annotations

# Kernels have no annotations but constexpr.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import sys
from typing import Any

import torch
import triton
import triton.language as tl

from ttools.profiler import profile

CONFIGS = [
    triton.Config({"BLOCK": size}, num_warps=warps) for size in (256, 1024) for warps in (2, 4)
]
#: Launches of the program's, for each of two sizes.
OWN = 5


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Doubles."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


def run(kernel: Any) -> None:
    for n in (1 << 20, 1 << 22):
        x = torch.ones(n, device="cuda")
        out = torch.empty_like(x)
        for _ in range(OWN):
            kernel[lambda meta, n=n: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
            torch.cos(out, out=out)
    torch.cuda.synchronize()


def judged(name: str, **how: Any) -> bool:
    """Whether a profile has the program's own launches, and no others."""
    given = {"key": ["n"], "reset_to_zero": ["out_ptr"], **how}
    right = True
    for data in ("trace", "tree"):
        kernel = triton.autotune(CONFIGS, **given)(scale_kernel)
        with profile(on="gpu", data=data) as prof:
            run(kernel)
        rows = prof.frame[["kernel", "config", "launches", "total_s"]]
        print(f"\n{name}, data={data!r}: {prof.trials}; {prof.notes}\n{rows.to_string()}")
        frame = prof.frame.set_index("kernel")["launches"]
        if data == "trace":
            own = int(frame.loc[["scale_kernel"]].sum())
            cosines = sum(n for kernel, n in frame.items() if "cos" in kernel)
            others = [kernel for kernel in frame.index if "Fill" in kernel]
            fills = int(frame.loc[others].sum()) if others else 0
            right &= own == cosines == 2 * OWN and prof.trials.launches > 0
            # Two of torch.ones, and of each tuning what resets memory before its first trial; CUDA
            # graphs are captured between operations of torch's own.
            right &= fills <= 4 or "use_cuda_graph" in how
            right &= "scale_kernel" not in prof.notes
        else:
            right &= "trials" in prof.notes.get("scale_kernel", "")
    with profile(on="gpu", trials=True) as prof:
        run(triton.autotune(CONFIGS, **given)(scale_kernel))
    everything = prof.frame.set_index("kernel")["launches"].loc[["scale_kernel"]]
    print(f"\n{name}, with trials: {int(everything.sum())} launches; left out: {prof.trials}")
    return right and int(everything.sum()) > 2 * OWN and not prof.trials.launches


def main() -> None:
    right = [judged("do_bench"), judged("CUDA graphs", use_cuda_graph=True)]
    print("\nright" if all(right) else f"\nWRONG: {right}")
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
