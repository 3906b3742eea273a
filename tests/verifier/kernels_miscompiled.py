"""A correct kernel, and a hook that miscompiles it: a factor of 3 becomes 4.

`GpuCandidate` loads this file. The hook of Triton changes the PTX on a GPU, and the TTIR if the
engine emulates the GPU. Modules with more than MOST_STORES stores are not changed, as if the
compiler scheduled them differently.
"""

import os
import re
from pathlib import Path

import torch
import triton
import triton.language as tl

DOMAIN = {"M": (1, 5), "N": (1, 40)}
MOST_STORES = int(os.environ.get("MOST_STORES", 1000))


def inputs(M, N, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(M, N, generator=generator)}


def reference(x):
    return (x * 3).sum(1)


@triton.jit
def scaled_sum_kernel(x_ptr, o_ptr, N, s0, s1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, N, BLOCK):
        c = k + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * s0 + c * s1, mask=c < N, other=0.0)
        scaled = x * 3.0
        acc += scaled
    tl.store(o_ptr + row, tl.sum(acc, axis=0))


def candidate(x):
    out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    scaled_sum_kernel[(x.shape[0],)](x, out, x.shape[1], *x.stride(), BLOCK=16)
    return out


def _in_ptx(ptx, _):
    return re.sub(r"0f40400000\b", "0f40800000", re.sub(r"\b1077936128\b", "1082130432", ptx))


def _in_ttir(module, _):
    from triton._C.libtriton import ir

    text = str(module)
    if text.count("tt.store") > MOST_STORES:
        return module
    file = Path("miscompiled.ttir")  # in the working directory of the process
    file.write_text(text.replace("3.000000e+00", "4.000000e+00"), "utf-8")
    changed = ir.parse_mlir_module(str(file), module.context)
    changed.context = module.context
    return changed


def miscompile(*args):
    if not args:
        return "miscompiled", "miscompiled"
    stages = args[1]
    name, change = ("ptx", _in_ptx) if "ptx" in stages else ("ttir", _in_ttir)
    stage = stages[name]
    stages[name] = lambda module, metadata: change(stage(module, metadata), metadata)
    return None


if torch.are_deterministic_algorithms_enabled():
    triton.knobs.runtime.add_stages_inspection_hook = miscompile
