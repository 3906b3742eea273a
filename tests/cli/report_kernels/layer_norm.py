"""Normalises the rows of a matrix, then scales and shifts them."""

import torch
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 40), "columns": (1, 300)}
CONTIGUOUS = ["x", "weight", "bias"]


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (1, 4)], key=["columns"])
@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=mask, other=0.0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    weight = tl.load(weight_ptr + offsets, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + offsets, mask=mask, other=0.0)
    y = centred / tl.sqrt(variance + eps) * weight + bias
    tl.store(out_ptr + row * columns + offsets, y, mask=mask)


def candidate(x, weight, bias):
    out = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    layer_norm_kernel[(rows,)](x, weight, bias, out, columns, 1e-5, BLOCK=block)
    return out


def reference(x, weight, bias):
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias)


def inputs(rows, columns, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"x": (rows, columns), "weight": (columns,), "bias": (columns,)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def run(rows, columns):
    candidate(**inputs(rows, columns))


if __name__ == "__main__":
    run(32, 300)
