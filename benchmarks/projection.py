"""The profiler's projection against measured launches: errors and rank correlation.

    python benchmarks/projection.py measure points.json     # on an NVIDIA GPU
    python benchmarks/projection.py judge points.json       # anywhere

`measure` times each launch. `judge` counts them on the CPU, fits the constants of
`ttools.profiler.gpu_time.projection` to every fourth, projects all others, and prints the table:
Spearman's rank correlation, median error, and every point.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import advice_pairs
import kernels
import numpy as np
import torch
import triton
import wider_kernels

from ttools.profiler import Profile, profile
from ttools.profiler.gpu_time.projection import Constants, Work, fitted, project, work_of
from ttools.profiler.report.access_frame import qualities

LAUNCHES = 30
Point = tuple[str, Callable[[], Any]]


def points(device: str) -> Iterator[Point]:
    """Kernels and sizes; every fourth is for fitting."""
    yield from elementwise(device)
    yield from rows(device)
    yield from products(device)
    yield from others(device)


def elementwise(device: str) -> Iterator[Point]:
    for n in (1 << 16, 1 << 20, 1 << 22, 1 << 24):
        x, y, out = (torch.rand(n, device=device) for _ in range(3))
        grid = (triton.cdiv(n, 1024),)
        yield f"add {n:,}", partial(kernels.add_kernel[grid], x, y, out, n, BLOCK=1024)
        yield f"swiglu {n:,}", partial(wider_kernels.swiglu_kernel[grid], x, y, out, n, BLOCK=1024)
    for n in (1 << 20, 1 << 22):
        x, out = torch.rand(n, device=device), torch.empty(n, device=device)
        index = torch.randperm(n, device=device).int()
        grid = (triton.cdiv(n, 1024),)
        yield f"gather {n:,}", partial(kernels.gather_kernel[grid], x, index, out, n, BLOCK=1024)


def rows(device: str) -> Iterator[Point]:
    for m, n in ((512, 1000), (4096, 1024), (2048, 4096), (8192, 2048)):
        x, out = torch.rand(m, n, device=device), torch.empty(m, n, device=device)
        w, b = torch.rand(n, device=device), torch.rand(n, device=device)
        mean, rstd = torch.empty(m, device=device), torch.empty(m, device=device)
        block = triton.next_power_of_2(n)
        yield f"softmax {m}x{n}", partial(kernels.softmax_kernel[(m,)], x, out, n, BLOCK=block)
        norm = partial(kernels.layer_norm_forward_kernel[(m,)], x, w, b, out, mean, rstd, n, 1e-5)
        yield f"layer norm {m}x{n}", partial(norm, BLOCK=block)
        scale = partial(wider_kernels.rms_norm_kernel[(m,)], x, w, out, n, 1e-5)
        yield f"RMS norm {m}x{n}", partial(scale, BLOCK=block)
        total = partial(advice_pairs.column_sum_kernel[(triton.cdiv(n, 32),)], x, w, m, n)
        yield f"column sum {m}x{n}", partial(total, BLOCK_M=32, BLOCK_N=32)


def products(device: str) -> Iterator[Point]:
    for size in (512, 1024, 2048):
        for dtype, precision in ((torch.float16, "tf32"), (torch.float32, "ieee")):
            for block in (64, 128):
                a, b = (torch.rand(size, size, device=device).to(dtype) for _ in range(2))
                c = torch.empty(size, size, device=device)
                kernel = advice_pairs.product_kernel[(size // block, size // block)]
                run = partial(kernel, a, b, c, size, size, size, precision)
                name = "f16" if dtype is torch.float16 else "f32"
                blocks = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 32}
                yield f"matmul {name} {size} by {block}", partial(run, **blocks)


def others(device: str) -> Iterator[Point]:
    for n in (512, 2048):
        q, k, v = (torch.rand(8, n, 64, device=device) for _ in range(3))
        run = partial(kernels.attention_kernel[(n // 64, 8)], q, k, v, torch.empty_like(q), 0.18, n)
        yield f"attention 8x{n}x64", partial(run, D=64, BLOCK_M=64, BLOCK_N=32)
    for n in (512, 2048):
        x, out = torch.rand(n, n, device=device), torch.empty(n, n, device=device)
        kernel = wider_kernels.transpose_kernel[(n // 64, n // 64)]
        yield f"transpose {n}", partial(kernel, x, out, n, n, BLOCK=64)
    for n in (4000, 32000):
        x = torch.rand(512, n, device=device)
        target, loss = torch.zeros(512, device=device).int(), torch.empty(512, device=device)
        kernel = wider_kernels.cross_entropy_kernel[(512,)]
        yield f"cross entropy 512x{n}", partial(kernel, x, target, loss, n, BLOCK=1024)


def measure(path: Path) -> None:
    found = []
    for name, run in points("cuda"):
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        with profile(counts=False) as prof:
            for _ in range(LAUNCHES):
                run()
        frame = prof.frame
        seconds = float(frame[frame["launches"] == LAUNCHES]["median_s"].iloc[0])
        found.append({"name": name, "seconds": seconds})
        print(f"{name:28} {seconds * 1e6:10.1f} us", flush=True)
    device = torch.cuda.get_device_name()
    path.write_text(json.dumps({"device": device, "triton": triton.__version__, "points": found}))


def judge(path: Path, device: str) -> None:
    data = json.loads(path.read_text())
    seconds = {point["name"]: point["seconds"] for point in data["points"]}
    every = []
    for name, run in points("cpu"):
        with profile(on="cpu", device=device) as prof:
            run()
        every.append((name, work_in(prof), seconds[name]))
    fitting, rest = every[::4], [each for n, each in enumerate(every) if n % 4]
    constants = fitted([(work, measured) for _, work, measured in fitting])
    print(f"{data['device']}, triton {data['triton']}; fitted to {len(fitting)}: {constants}")
    print(report(rest, constants))


def work_in(prof: Profile) -> Work:
    """Of the one launch of a profile."""
    (sample,) = prof.samples
    ((_, inspection, accesses),) = qualities(prof.samples, prof.inspections)
    assert sample.counts is not None
    assert prof.device is not None
    return work_of(sample.counts, inspection, prof.device, accesses)


def report(rest: list[tuple[str, Work, float]], constants: Constants) -> str:
    lines = ["| launch | measured, us | projected, us | ratio |", "|---|---:|---:|---:|"]
    measured, projected = [], []
    for name, work, seconds in rest:
        guess = project(work, constants)
        measured.append(seconds)
        projected.append(guess)
        lines.append(
            f"| {name} | {seconds * 1e6:.1f} | {guess * 1e6:.1f} | {guess / seconds:.2f} |"
        )
    rho = spearman(np.array(measured), np.array(projected))
    ratios = np.array(projected) / np.array(measured)
    error = float(np.median(np.maximum(ratios, 1 / ratios) - 1))
    verdict = "" if rho >= 0.8 else ": not predictive"
    head = f"{len(rest)} points: Spearman {rho:.3f}{verdict}; median error {error:.0%}"
    return "\n".join([head, "", *lines])


def spearman(a: Any, b: Any) -> float:
    """Of ranks; equal values share the mean of theirs."""

    def ranks(values: Any) -> Any:
        return np.array([((values < v).sum() + (values <= v).sum() - 1) / 2 for v in values])

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "judge"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--device", default="h100")
    arguments = parser.parse_args()
    if arguments.what == "measure":
        measure(arguments.path)
    else:
        judge(arguments.path, arguments.device)


if __name__ == "__main__":
    main()
