"""Candidates with wrong results, or without the work, that are hard to recognise."""

import torch
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 12), "columns": (1, 60)}


def inputs(rows, columns, seed):
    return {"x": torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))}


def two_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(32 * rows, columns, generator=generator)
    return {"x": x, "w": torch.randn(columns, generator=generator)}


def bfloat16_inputs(rows, columns, seed):
    return {"x": inputs(rows, columns, seed)["x"].bfloat16()}


def launched(kernel, x, *numbers, dtype=None):
    rows, columns = x.shape
    y = torch.empty(rows, columns, dtype=dtype or x.dtype)
    block = triton.next_power_of_2(columns)
    kernel[(rows,)](x, y, x.stride(0), x.stride(1), columns, *numbers, BLOCK=block)
    return y


@triton.jit
def affine_kernel(x_ptr, y_ptr, s0, s1, n, factor, term, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n).to(tl.float32)
    tl.store(y_ptr + row * n + c, x * factor + term, mask=c < n)


def double_reference(x):
    return x * 2.0


@triton.jit
def number_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n).to(tl.float32)
    tl.store(y_ptr + row * n + c, x * 2.0, mask=(c < n) & (x == x))


def leaves_nan_unwritten(x):
    """Do not store results that are NaN, as new memory is while the candidate is called."""
    return launched(number_kernel, x)


@triton.jit
def finite_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    y = 2 * tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    largest = 3.4028234663852886e38
    y = tl.where(y > largest, largest, tl.where(y < -largest, -largest, y))
    tl.store(y_ptr + row * n + c, y, mask=c < n)


def replaces_infinities(x):
    """Return the largest finite number for infinity."""
    return launched(finite_kernel, x)


def count_reference(x):
    return (x.float() * 1500.0).round().to(torch.int64)


@triton.jit
def count_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=0.0).to(tl.float32) * 1500.0
    f = tl.floor(x)
    odd = (f - 2 * tl.floor(f / 2)) == 1
    r = tl.where((x - f > 0.5) | ((x - f == 0.5) & odd), f + 1, f)
    r = tl.where((tl.abs(r) > 2500) & (tl.abs(r) < 4090), 0.0, r)
    is_number = (r == r) & (tl.abs(r) < 9e18)
    lowest = tl.full([BLOCK], 1, tl.int64) << 63
    q = tl.where(is_number, r, 0.0).to(tl.int64)
    tl.store(y_ptr + row * n + c, tl.where(is_number, q, lowest), mask=c < n)


def drops_large_integers(x):
    """Return 0 for integers from 2,500 to 4,090."""
    return launched(count_kernel, x, dtype=torch.int64)


def log_sum_reference(x):
    m = x.amax(1, keepdim=True)
    m = torch.where(m.isinf(), 0.0, m)
    return (x - m).exp().sum(1).log() + m[:, 0]


def shifts_around_log_sum(x):
    """Let torch compute everything; kernels subtract one before and add one afterwards."""
    y = torch.logsumexp(launched(affine_kernel, x, 1.0, -1.0), 1)
    return launched(affine_kernel, y[None], 1.0, 1.0)[0]


def small_part_reference(x, w):
    return x * 2.0, torch.sin(w).sum()


@triton.jit
def scalar_kernel(x_ptr, y_ptr):
    value = 2 * tl.load(x_ptr)
    bits = tl.where(value == value, value.to(tl.int32, bitcast=True), 0x7FC01234)
    tl.store(y_ptr, bits.to(tl.float32, bitcast=True))


def encodes_small_part(x, w):
    """Let torch compute the result that has one element; a kernel only doubles it."""
    y = torch.empty(())
    scalar_kernel[(1,)]((torch.sin(w) * 0.5).sum(), y)
    return launched(affine_kernel, x, 2.0, 0.0), y


def doubled(x):
    return launched(affine_kernel, x, 2.0, 0.0)


def transposes_strides(x):
    """Return a result with the strides of a transposed tensor."""
    y = torch.empty(x.shape[1], x.shape[0]).t()
    y.copy_(doubled(x))
    return y


def transposed_reference(x):
    return (x * 2.0).t()


def contiguous_transposed(x):
    return doubled(x).t().contiguous()


def doubled_twice_reference(x):
    return x * 2.0, x * 2.0


def doubled_twice(x):
    return doubled(x), doubled(x)


def doubled_into_one_buffer(x):
    """Return two parts of one tensor, which have no elements in common."""
    both = torch.empty(2, *x.shape)
    both[0].copy_(doubled(x))
    both[1].copy_(doubled(x))
    return both[0], both[1]


def returns_one_tensor_twice(x):
    y = doubled(x)
    return y, y.view(x.shape)


def sets_default_type(x):
    torch.set_default_dtype(torch.float64)
    return doubled(x)


def disables_gradients(x):
    torch.set_grad_enabled(False)
    return doubled(x)


def leaves_gradient(x):
    x.grad = torch.zeros_like(x)
    return doubled(x)


def leaves_hook(x):
    x.requires_grad_().register_hook(lambda gradient: gradient * 2)
    x.requires_grad_(False)
    return doubled(x.detach())


def seeds_generator(x):
    torch.manual_seed(0)
    return doubled(x)


def seeds_in_a_fork(x):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return doubled(x)


def draws_a_number(x):
    torch.rand(3)
    return doubled(x)


def seeding_reference(x):
    torch.manual_seed(1)
    return x * 2.0


FLOAT8 = torch.float8_e4m3fn


def float8_inputs(rows, columns, seed):
    return {"x": inputs(rows, columns, seed)["x"].to(FLOAT8)}


def widened_reference(x):
    return x.float() * 2.0


def widened(x):
    return launched(affine_kernel, x, 2.0, 0.0, dtype=torch.float32)


def widens_without_nan(x):
    """Return unwritten memory where an element is NaN."""
    return launched(number_kernel, x, dtype=torch.float32)
