"""Compares counted operations and bytes with those that Nsight Compute measures.

    python benchmarks/against_ncu.py

Counts on the host, then runs itself under `ncu`. Needs an NVIDIA GPU and permission to read the
GPU's performance counters.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import advice_pairs
import kernels
import torch
import triton

METRICS = {
    "fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "fmul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    # Hopper's warpgroup matrix products; on older GPUs, `hmma` replaces `hgmma` in the name.
    "tensor": "sm__ops_path_tensor_op_hgmma_src_fp16.sum",
    "products": "sm__inst_executed_pipe_tensor.sum",
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
}


def workloads(device: str) -> dict[str, Callable[[], Any]]:
    n = 1 << 24
    x, y, out = (torch.rand(n, device=device) for _ in range(3))
    m, columns = 8192, 4096
    rows = (torch.rand(m, columns, device=device), torch.empty(m, columns, device=device))
    weight, bias = (torch.rand(columns, device=device) for _ in range(2))
    mean, rstd = (torch.empty(m, device=device) for _ in range(2))
    size = 4096
    a, b = (torch.rand(size, size, device=device).half() for _ in range(2))
    c = torch.empty(size, size, device=device)
    q, k, v = (torch.rand(16, 2048, 64, device=device) for _ in range(3))
    o = torch.empty_like(q)
    return {
        "add": lambda: kernels.add_kernel[(n // 1024,)](x, y, out, n, BLOCK=1024),
        "softmax": lambda: kernels.softmax_kernel[(m,)](*rows, columns, BLOCK=4096),
        "layer norm": lambda: kernels.layer_norm_forward_kernel[(m,)](
            rows[0], weight, bias, rows[1], mean, rstd, columns, 1e-5, BLOCK=4096
        ),
        "matmul": lambda: advice_pairs.product_kernel[(32, 32)](
            *(a, b, c, size, size, size, "tf32"),
            BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3,
        ),
        "attention": lambda: kernels.attention_kernel[(32, 16)](
            *(q, k, v, o, 0.18, 2048), D=64, BLOCK_M=64, BLOCK_N=32
        ),
    }  # fmt: skip


def measured() -> dict[str, dict[str, float]]:
    """Return the values that Nsight Compute measures, by kernel and short name of the metric."""
    command = ["ncu", "--csv", "--print-units", "base", "--cache-control", "all"]
    command += ["--kernel-name", "regex:_kernel$", "--metrics", ",".join(METRICS.values())]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--worker"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        raise SystemExit(f"ncu measured nothing:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    names = {metric: name for name, metric in METRICS.items()}
    by_kernel: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(lines[first:]):
        value = row["Metric Value"].replace(",", "")
        if row["Metric Name"] in names and value not in ("", "n/a"):
            by_kernel[row["Kernel Name"]][names[row["Metric Name"]]] = float(value)
    return dict(by_kernel)


def main() -> None:
    if "--worker" in sys.argv:
        for run in workloads("cuda").values():
            run()
        torch.cuda.synchronize()
        return
    from ttools.profiler import profile

    print(torch.cuda.get_device_name(), "triton", triton.__version__)
    by_kernel = measured()
    print("| kernel | counted flop | measured flop | deviation | unique, requested | DRAM |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, run in workloads("cuda").items():
        with profile() as prof:
            run()
        frame = prof.analyse().frame
        ((_, row),) = frame[frame["flops"].notna()].iterrows()
        own = by_kernel.get(row["kernel"], {})
        flops = own.get("fadd", 0) + own.get("fmul", 0) + 2 * own.get("ffma", 0)
        flops += own.get("tensor", 0)
        moved = own.get("read", 0) + own.get("written", 0)
        deviation = row["flops"] / flops - 1 if flops else float("nan")
        print(
            f"| {name} | {row['flops']:.5g} | {flops:.5g} | {deviation:+.1%} "
            f"| {row['unique_bytes'] / 1e6:.1f}, {row['bytes'] / 1e6:.1f} MB "
            f"| {moved / 1e6:.1f} MB |",
            flush=True,
        )
        print("|  |", ", ".join(f"{key} {value:.5g}" for key, value in own.items()), "|")


if __name__ == "__main__":
    main()
