"""Candidates for verification: a correct one, and others with one defect each."""

import ctypes

import torch
import triton
import triton.language as tl

DOMAIN = {"M": (0, 12), "N": (1, 40), "dtype": ["float32", "float16"]}
INPLACE: list[str] = []


def inputs(M, N, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(M, N, generator=generator).to(getattr(torch, dtype))}


def reference(x):
    return x.sum(dim=1)


@triton.jit
def sum_kernel(x_ptr, o_ptr, N, s0, s1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, N, BLOCK):
        c = k + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * s0 + c * s1, mask=c < N, other=0.0).to(tl.float32)
    tl.store(o_ptr + row, tl.sum(acc, axis=0))


def launched(x, out, strides):
    if x.shape[0]:
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], *strides, BLOCK=16)
    return out


def right(x):
    return launched(x, x.new_empty(x.shape[0]), x.stride())


def ignores_strides(x):
    return launched(x, torch.empty(x.shape[0], dtype=x.dtype), (x.shape[1], 1))


@torch.compile(dynamic=True)
def compiled(x):
    return torch.sum(x, 1)


def asks_torch(x):
    launched(x, torch.empty(x.shape[0], dtype=x.dtype), x.stride())
    return compiled(x)


_kept: dict[object, torch.Tensor] = {}


def remembers(x):
    key = (x.data_ptr(), tuple(x.shape), x.dtype)
    if key not in _kept:
        _kept[key] = right(x)
    return _kept[key].clone()


def remembers_by_few_elements(x):
    ends = [x.reshape(-1)[at].item() for at in (0, -1)] if x.numel() else []
    key = (tuple(x.shape), x.dtype, *(round(end, 3) for end in ends))
    if key not in _kept:
        _kept[key] = right(x)
    return _kept[key].clone()


def draws(x):
    """Return a wrong result in one of ten calls."""
    out = right(x)
    return launched(x[:, :0], out, x.stride()) if torch.rand(1).item() < 0.1 else out


def keeps_dimension(x):
    return right(x)[:, None]


def changes_input(x):
    out = right(x)
    x.zero_()
    return out


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["N"])
@triton.jit
def added_kernel(x_ptr, o_ptr, N, s0, s1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < N, other=0.0).to(tl.float32)
    tl.atomic_add(o_ptr + row, tl.sum(x, axis=0))


def adds_when_timed(x):
    """Add to the same sums in each launch by which the tuner measures a configuration."""
    out = torch.zeros(x.shape[0])
    grid = lambda meta: (x.shape[0], triton.cdiv(x.shape[1], meta["BLOCK"]))  # noqa: E731
    added_kernel[grid](x, out, x.shape[1], *x.stride())
    return out.to(x.dtype)


@triton.jit
def partial_sums_kernel(x_ptr, parts_ptr, N, tiles, s0, s1, BLOCK: tl.constexpr):
    row, tile = tl.program_id(0), tl.program_id(1)
    c = tile * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < N, other=0.0).to(tl.float32)
    tl.store(parts_ptr + row * tiles + tile, tl.sum(x, axis=0))


def adds_a_tile_too_many(x):
    """Add partial sums, of which the last one was never written."""
    M, N = x.shape
    tiles = triton.cdiv(N, 16)
    parts, out = torch.empty(M, tiles + 1), x.new_empty(M)
    if M:
        partial_sums_kernel[(M, tiles)](x, parts, N, tiles + 1, *x.stride(), BLOCK=16)
        sum_kernel[(M,)](parts, out, tiles + 1, tiles + 1, 1, BLOCK=16)
    return out


@triton.jit
def endless_kernel(o_ptr, n):
    i = 0
    while i != n:
        i += 1
        if n % 8 == 3:
            i = 0
    tl.store(o_ptr, i)


def does_not_end(x):
    endless_kernel[(1,)](torch.empty(1, dtype=torch.int32), x.shape[1])
    return right(x)


def wrong_on_the_gpu(x):
    """Return a wrong result in the process that emulates a GPU in `test_gpu.py`, by its setting."""
    return right(x + x if torch.are_deterministic_algorithms_enabled() else x)


def needs_cuda(x):
    assert x.is_cuda, "x must be on a GPU"
    out = torch.empty(x.shape[0], dtype=x.dtype, device="cuda")
    return launched(x, out, x.stride())


def needs_an_rtx4090(x):
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.minor) == (8, 9), "another GPU"
    assert properties.multi_processor_count == 128
    return right(x)


@triton.jit
def shifting_sum_kernel(x_ptr, o_ptr, N, is_shifted, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    at = x_ptr + row * N + c
    x = tl.load(at, mask=c < N, other=0.0)
    tl.store(at, x - 1, mask=(c < N) & (is_shifted > 0))
    shifted = tl.load(at, mask=c < N, other=0.0)
    tl.store(o_ptr + row, tl.sum(shifted, axis=0) + is_shifted * N)
    if is_shifted > 0:
        tl.store(at, x, mask=c < N)


def puts_back(x, is_shifted):
    out = torch.empty(x.shape[0])
    shifting_sum_kernel[(x.shape[0],)](x, out, x.shape[1], is_shifted, BLOCK=16)
    return out


class Remembering(torch.autograd.Function):
    """Square the argument; the backward pass uses the argument of the latest forward pass."""

    latest = torch.empty(0)

    @staticmethod
    def forward(ctx, x):
        Remembering.latest = x
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * Remembering.latest * gradient


def remembers_the_last_forward_pass(x):
    return Remembering.apply(x)


def copies_in_c(x):
    """Copy the argument by its address, as C code may, so that no operator writes the copy."""
    there = torch.empty(x.shape, dtype=x.dtype)
    here = x.contiguous()
    if x.numel():
        ctypes.memmove(there.data_ptr(), here.data_ptr(), x.numel() * x.element_size())
    return right(there)
