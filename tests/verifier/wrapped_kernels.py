"""Correct candidates whose wrappers pad, copy, flip or keep tensors, or make constants."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 12), "columns": (1, 60)}


def inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(rows, columns, generator=generator)}


def even_inputs(rows, columns, seed):
    return inputs(rows, 2 * columns, seed)


def inputs_from_zero(rows, columns, seed):
    """Return floats, the first of which is 0 for each seed; all are 0 if it is expanded."""
    x = inputs(1, rows * columns, seed)["x"]
    x[0, 0] = 0.0
    return {"x": x}


def graded_inputs(rows, columns, seed):
    return {"x": inputs(rows, columns, seed)["x"].requires_grad_()}


@triton.jit
def softmax_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * n + c, e / tl.sum(e, 0), mask=c < n)


def launched(kernel, x):
    """Return the result of a kernel with one program for each row."""
    rows, n = x.shape
    y = torch.empty(rows, n)
    kernel[(rows,)](x, y, x.stride(0), x.stride(1), n, BLOCK=triton.next_power_of_2(n))
    return y


def softmax_reference(x):
    return torch.softmax(x, 1)


def pads_columns(x):
    n = x.shape[1]
    padded = F.pad(x, (0, -n % 16), value=-float("inf"))
    return launched(softmax_kernel, padded)[:, :n].contiguous()


def reversed_sums_reference(x):
    return x.flip(1).cumsum(1).flip(1)


@triton.jit
def sums_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=0.0)
    tl.store(y_ptr + row * n + c, tl.cumsum(x, 0), mask=c < n)


def flips_input(x):
    """Compute sums from the end of each row, by a kernel that begins at the start."""
    return launched(sums_kernel, x.flip(1)).flip(1)


def _angles(rows, half):
    return torch.arange(rows)[:, None] * 10000.0 ** (-torch.arange(half) / half)


def rotary_reference(x):
    rows, half = x.shape[0], x.shape[1] // 2
    cos, sin = _angles(rows, half).cos(), _angles(rows, half).sin()
    one, two = x[:, :half], x[:, half:]
    return torch.cat([one * cos - two * sin, two * cos + one * sin], 1)


@triton.jit
def rotary_kernel(x_ptr, cos_ptr, sin_ptr, y_ptr, s0, s1, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < half
    one = tl.load(x_ptr + row * s0 + c * s1, mask=mask)
    two = tl.load(x_ptr + row * s0 + (c + half) * s1, mask=mask)
    cos = tl.load(cos_ptr + row * half + c, mask=mask)
    sin = tl.load(sin_ptr + row * half + c, mask=mask)
    tl.store(y_ptr + row * 2 * half + c, one * cos - two * sin, mask=mask)
    tl.store(y_ptr + row * 2 * half + half + c, two * cos + one * sin, mask=mask)


def with_tables(x):
    rows, half = x.shape[0], x.shape[1] // 2
    cos, sin = _angles(rows, half).cos(), _angles(rows, half).sin()
    y = torch.empty(rows, 2 * half)
    block = triton.next_power_of_2(half)
    rotary_kernel[(rows,)](x, cos, sin, y, x.stride(0), x.stride(1), half, BLOCK=block)
    return y


def column_sums_reference(x):
    return x.sum(0)


@triton.jit
def partial_sums_kernel(x_ptr, p_ptr, s0, s1, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + r * s0 + c * s1, mask=(r < rows) & (c < n), other=0.0)
    o = tl.arange(0, BLOCK)
    tl.store(p_ptr + tl.program_id(0) * n + o, tl.sum(x, 0), mask=o < n)


_workspaces: dict[str, torch.Tensor] = {}


def keeps_a_workspace(x):
    rows, n = x.shape
    parts, y = triton.cdiv(rows, 4), torch.empty(n)
    workspace = _workspaces.get("sums")
    if workspace is None or workspace.numel() < parts * n:
        workspace = _workspaces["sums"] = torch.zeros(parts * n)
    blocks = {"ROWS": 4, "BLOCK": triton.next_power_of_2(n)}
    strides = x.stride(0), x.stride(1)
    partial_sums_kernel[(parts,)](x, workspace, *strides, rows, n, **blocks)
    partial_sums_kernel[(1,)](workspace, y, n, 1, parts, n, **blocks)
    return y


_configs = [triton.Config({}, num_warps=warps) for warps in (1, 4)]
tuned_kernel = triton.autotune(_configs, key=["n"])(softmax_kernel)


def autotuned(x):
    return launched(tuned_kernel, x)


def twice_reference(x):
    return x * 2.0


@triton.jit
def twice_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x * 2.0, mask=c < n)


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launched(twice_kernel, x)

    @staticmethod
    def backward(ctx, weights):
        return launched(twice_kernel, weights)


def with_gradient(x):
    return _Twice.apply(x)


def transposed_softmax_reference(x):
    return torch.softmax(x, 1).t().contiguous()


@torch.library.custom_op("ttools_wrapped::transposed_softmax", mutates_args=())
def transposed_softmax(x: torch.Tensor) -> torch.Tensor:
    return launched(softmax_kernel, x).t()


def by_a_custom_operator(x):
    return transposed_softmax(x).contiguous()


def transpose_reference(x):
    return x.t().contiguous()


@triton.jit
def transpose_kernel(x_ptr, y_ptr, rows, n, TILE: tl.constexpr):
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :])
    tl.store(y_ptr + c[:, None] * rows + r[None, :], tl.trans(x))


def transposes_padded_tiles(x):
    """Pad to whole tiles; the reference only moves elements, too."""
    rows, n = x.shape
    padded = F.pad(x, (0, -n % 16, 0, -rows % 16)).contiguous()
    y = torch.empty(padded.shape[1], padded.shape[0])
    grid = padded.shape[0] // 16, padded.shape[1] // 16
    transpose_kernel[grid](padded, y, *padded.shape, TILE=16)
    return y[:n, :rows].contiguous()


# ---- results that torch finishes
def product_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    return {"x": x, "w": torch.randn(columns, 24, generator=generator)}


def product_reference(x, w):
    return x @ w


@triton.jit
def split_kernel(x_ptr, w_ptr, y_ptr, sx0, sx1, sw0, sw1, m, n, k, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(part, k, tl.num_programs(1)):
        w = tl.load(w_ptr + i * sw0 + c * sw1, mask=c < n, other=0.0)
        total += tl.load(x_ptr + row * sx0 + i * sx1) * w
    tl.store(y_ptr + (part * m + row) * n + c, total, mask=c < n)


def split_k(x, w):
    """Divide each sum among four programs, and let torch add up their partial results."""
    (m, k), n = x.shape, w.shape[1]
    parts = torch.empty(4, m, n)
    split_kernel[(m, 4)](x, w, parts, *x.stride(), *w.stride(), m, n, k, BLOCK=32)
    return parts.sum(0)


def sums_by_parts(x):
    """Add up eight rows in each program, and let torch add up the partial results."""
    rows, n = x.shape
    parts = torch.empty(triton.cdiv(rows, 8), n)
    blocks = {"ROWS": 8, "BLOCK": triton.next_power_of_2(n)}
    partial_sums_kernel[(len(parts),)](x, parts, *x.stride(), rows, n, **blocks)
    return parts.sum(0)


def many_rows(rows, columns, seed):
    return inputs(5 * rows, columns, seed)
