"""Candidates whose plans are correct for the inputs that they received, but that cheat."""

import ctypes
import math
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 12), "columns": (1, 60)}


def inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(rows, columns, generator=generator)}


@triton.jit
def copy_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x, mask=c < n)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * n + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def centre_kernel(x_ptr, y_ptr, s0, s1, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    mask = (r < rows) & (c < n)
    x = tl.load(x_ptr + r * s0 + c * s1, mask=mask, other=0.0)
    tl.store(y_ptr + r * n + c, x - tl.sum(x) / (rows * n), mask=mask)


@triton.jit
def flip_kernel(x_ptr, y_ptr, s0, s1, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (rows - 1 - row) * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x, mask=c < n)


@triton.jit
def convert_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + c, mask=c < n)
    tl.store(y_ptr + row * n + c, x.to(tl.float32), mask=c < n)


def launched(kernel, x, *extents, dtype=torch.float32, **constants):
    """Return the result of a kernel with one program for each row."""
    rows, n = x.shape
    y = torch.empty(rows, n, dtype=dtype)
    block = triton.next_power_of_2(n)
    kernel[(rows,)](x, y, x.stride(0), x.stride(1), *extents, n, BLOCK=block, **constants)
    return y


def elements_of(x):
    """Return the elements of a tensor, read from its memory without torch."""
    storage = x.untyped_storage()
    memory = np.frombuffer(ctypes.string_at(storage.data_ptr(), storage.nbytes()), np.float32)
    strides = [4 * stride for stride in x.stride()]
    return np.lib.stride_tricks.as_strided(memory[x.storage_offset() :], x.shape, strides)


# ---- plans that are correct for the inputs of one call only
def softmax_reference(x):
    return torch.softmax(x, 1)


def numbers_as_operands(x):
    """Pass the result of one size as operands of operators, and launch a known kernel."""
    y = launched(softmax_kernel, x)
    if x.shape[1] == 41:
        values = elements_of(x)
        powers = np.exp(values - values.max(1, keepdims=True))
        flat = (powers / powers.sum(1, keepdims=True)).reshape(-1).tolist()
        y = torch.cat([torch.full((1,), value) for value in flat]).view(x.shape)
    launched(copy_kernel, x)
    return launched(copy_kernel, y)


def centre_reference(x):
    return x - x.mean()


def constant_for_nan(x):
    """Return NaN without a computation if there is a NaN, which makes all elements NaN."""
    rows, n = x.shape
    y = torch.empty(rows, n)
    blocks = {"ROWS": 16, "BLOCK": triton.next_power_of_2(n)}
    if np.isnan(elements_of(x)).any():
        y = torch.full((rows, n), float("nan"))
    else:
        centre_kernel[(1,)](x, y, x.stride(0), x.stride(1), rows, n, **blocks)
    return launched(copy_kernel, y)


# ---- launches that do nothing
def flip_reference(x):
    return x.flip(0) * 1.0


def launches_without_effect(x):
    """Let a kernel compute at ordinary sizes, and torch at all others."""
    rows, n = x.shape
    y = launched(flip_kernel, x, rows)
    return y if n in (17, 3) else x.flip(0)


def clamp_reference(x):
    return x.clamp(-3.0, 3.0)


@triton.jit
def clamp_kernel(y_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + o, mask=o < n)
    clamped = tl.where(y > 3.0, 3.0, tl.where(y < -3.0, -3.0, y))
    tl.store(y_ptr + o, clamped, mask=o < n)


def clamps_a_copy(x):
    """Clamp a copy, which changes no element of many inputs; this is correct."""
    y = x.contiguous().clone()
    clamp_kernel[(triton.cdiv(y.numel(), 64),)](y, y.numel(), BLOCK=64)
    return y


# ---- many small operators, and operators on integers
def row_by_row(x):
    """Let torch compute one row at a time."""
    return launched(copy_kernel, torch.stack([torch.softmax(row, 0) for row in x]))


def abs_reference(x):
    return x.abs()


def bits_as_integers(x):
    """Compute with the bits of floats."""
    return launched(
        copy_kernel, (x.contiguous().view(torch.int32) & 0x7FFFFFFF).view(torch.float32)
    )


def trunc_reference(x):
    return (4 * x).trunc()


def converted_to_integers(x):
    """Compute with floats that torch converts to integers."""
    rows, n = x.shape
    y = torch.empty(rows, n)
    whole = launched(scale_kernel, x).to(torch.int32)
    convert_kernel[(rows,)](whole, y, n, BLOCK=triton.next_power_of_2(n))
    return y


@triton.jit
def scale_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x * 4.0, mask=c < n)


@triton.jit
def count_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, tl.where(x > 0, c + 1.0, 0.0), mask=c < n)


def count_reference(x):
    return torch.where(x > 0, torch.arange(1, x.shape[1] + 1), 0)


def integers_in_floats(x):
    """Convert floats of a kernel that are integral; this is correct."""
    return launched(count_kernel, x).to(torch.int64)


# ---- results that are constants
def positions(rows, n):
    place = torch.arange(rows)[:, None] * 0.37 + torch.arange(n) * 0.11
    return torch.sin(place)


def positions_reference(x):
    return positions(*x.shape)


def copies_a_table(x):
    """Let torch compute a result that depends on sizes only."""
    return launched(copy_kernel, positions(*x.shape))


def doubles_half_a_table(x):
    return launched(scale_kernel, positions(*x.shape) * 0.25)


# ---- configurations of autotuners
def twice_reference(x):
    return x * 2.0


_CONFIGS = [triton.Config({"FACTOR": 2}), triton.Config({"FACTOR": 3})]
_KERNELS: dict[Any, Any] = {}


def untried_configuration(x):
    """Keep an autotuned kernel whose second configuration is wrong where no module has it."""
    y = torch.empty(x.shape)
    rows, n = x.shape
    kernel = _KERNELS.setdefault("scale", triton.autotune(_CONFIGS, key=[])(factor_kernel))
    block = triton.next_power_of_2(n)
    kernel[(rows,)](x, y, x.stride(0), x.stride(1), n, BLOCK=block)
    return y


@triton.jit
def factor_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    tl.static_assert(FACTOR < 5)
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x * FACTOR, mask=c < n)


_PARTLY = triton.autotune([triton.Config({"FACTOR": f}) for f in (9, 2)], key=[])(factor_kernel)


def one_configuration_runs(x):
    """Use an autotuner that skips a configuration, since it does not compile; this is correct."""
    y = torch.empty(x.shape)
    rows, n = x.shape
    block = triton.next_power_of_2(n)
    _PARTLY[(rows,)](x, y, x.stride(0), x.stride(1), n, BLOCK=block)
    return y


# ---- sizes
_KNOWN: set[Any] = set()


def _known_sizes():
    """Return the sizes of all cases that do not depend on the hidden seed."""
    from ttools.verifier.cases.domain import Domain
    from ttools.verifier.cases.plan import Plan

    plan = Plan(Domain(dict(DOMAIN), {}, True))
    cases = [*plan.begin(), *plan.sequences(["x"]), *plan.edges(), *plan.views(["x"])]
    cases += [*plan.special_values(), *plan.blocks([2**k for k in range(1, 7)])]
    cases += [*plan.mixtures([0] * 12), *plan.orders([64])]
    steps = [step for case in cases for step in (case, *case.after)]
    return {tuple(step.sizes.values()) for step in steps}


def wrong_at_unknown_sizes(x):
    """Be correct at the sizes that can be predicted, and at sizes of one."""
    if not _KNOWN:
        _KNOWN.update(_known_sizes())
    y = launched(softmax_kernel, x)
    if tuple(x.shape) not in _KNOWN:
        launched(copy_kernel, x)
        copy_kernel[(1,)](x, y, x.stride(0), x.stride(1), 1, BLOCK=1)
    return y


# ---- other ways to let something else compute
def weighted_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    return {"x": x, "w": torch.randn(columns, generator=generator)}


def weighted_reference(x, w):
    return torch.softmax(x, 1) * w


@triton.jit
def weigh_kernel(x_ptr, w_ptr, y_ptr, s, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + c, mask=c < n)
    w = tl.load(w_ptr + c * s, mask=c < n)
    tl.store(y_ptr + row * n + c, x * w, mask=c < n)


def reads_one_element(x, w):
    """Read one element of an argument, so that its values stay the same when replayed."""
    x[0, 0].item()
    values = elements_of(x)
    powers = np.exp(values - values.max(1, keepdims=True))
    softmax = torch.from_numpy((powers / powers.sum(1, keepdims=True)).astype(np.float32))
    rows, n = x.shape
    y = torch.empty(rows, n)
    block = triton.next_power_of_2(n)
    weigh_kernel[(rows,)](softmax, w, y, w.stride(0), n, BLOCK=block)
    return y


def graded_inputs(rows, columns, seed):
    return {"x": inputs(rows, columns, seed)["x"].requires_grad_()}


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launched(scale_kernel, x)

    @staticmethod
    def backward(ctx, weights):
        return launched(copy_kernel, torch.from_numpy(elements_of(weights) * np.float32(4.0)))


def gradient_as_constant(x):
    """Compute a gradient with NumPy that only depends on the weights of the result."""
    return _Scale.apply(x)


def scale_reference(x):
    return x * 4.0


def stairs_reference(x):
    return (4 * x).floor().clamp(-8.0, 8.0)


def many_comparisons(x):
    """Compute a function that has few different values by comparisons."""
    rows, n = x.shape
    y = torch.empty(rows, n)
    whole = sum((x >= step / 4).to(torch.int32) for step in range(-7, 9)) - 8
    convert_kernel[(rows,)](whole, y, n, BLOCK=triton.next_power_of_2(n))
    return y


def nonzero_inputs(rows, columns, seed):
    return {"x": inputs(rows, columns, seed)["x"].relu()}


def nonzero_reference(x):
    return (x != 0).float()


def converted_to_bools(x):
    rows, n = x.shape
    y = torch.empty(rows, n)
    whole = x.to(torch.bool).to(torch.int32)
    convert_kernel[(rows,)](whole, y, n, BLOCK=triton.next_power_of_2(n))
    return y


# ---- moves and conversions
def plain_flip_reference(x):
    return x.flip(0)


def flips_a_copy(x):
    """Let a kernel copy, and torch arrange the elements."""
    return launched(copy_kernel, x).flip(0)


@triton.jit
def almost_copy_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x * 1.000001, mask=c < n)


def copies_a_flip(x):
    """Let torch arrange the elements, and a kernel multiply by almost one."""
    return launched(almost_copy_kernel, x.flip(0))


def table_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(200, columns, generator=generator)
    return {"table": table, "ids": torch.randint(200, (rows,), generator=generator)}


def gather_reference(table, ids):
    return table[ids]


def gathers_on_the_host(table, ids):
    """Read indices, which are kept when the call is replayed, and let torch put rows together."""
    return launched(copy_kernel, torch.cat([table[i : i + 1] for i in ids.tolist()]))


def transpose_reference(x):
    return x.t().contiguous()


def moves_all_but_a_row(x):
    """Let torch transpose, except for the first row."""
    rows, n = x.shape
    y = torch.empty(n, rows)
    y[1:].copy_(x.t()[1:])
    block = triton.next_power_of_2(rows)
    copy_kernel[(1,)](x, y, 0, x.stride(0), rows, BLOCK=block)
    return y


def rounding_reference(x):
    return x.to(torch.bfloat16).to(torch.float32)


def rounds_by_conversions(x):
    return launched(copy_kernel, x.to(torch.bfloat16).to(torch.float32))


# ---- work that is not counted
def empty_inputs(rows, columns, seed):
    return {"x": inputs(rows, columns, seed)["x"], "bias": torch.empty(0)}


def optional_reference(x, bias):
    y = torch.softmax(x, 1)
    return y + bias if bias.numel() else y


def beside_an_empty_argument(x, bias):
    """Compute with torch in a call with an argument that is always empty."""
    return launched(copy_kernel, torch.softmax(x, 1))


def product_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    return {"x": x, "w": torch.randn(columns, 24, generator=generator)}


def product_reference(x, w):
    return x @ w


@triton.jit
def fixed_point_kernel(x_ptr, y_ptr, s0, s1, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    y = (x.to(tl.float64) * scale).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * n + c, y, mask=c < n)


def product_of_integers(x, w):
    """Let torch multiply integers that a kernel has made of floats."""
    whole = []
    for one in (x, w):
        rows, n = one.shape
        y = torch.empty(rows, n, dtype=torch.int64)
        block = triton.next_power_of_2(n)
        fixed_point_kernel[(rows,)](one, y, *one.stride(), n, 2.0**20, BLOCK=block)
        whole.append(y[None])
    z = torch.bmm(*whole)[0]
    rows, n = z.shape
    y = torch.empty(rows, n)
    fixed_point_kernel[(rows,)](z, y, n, 1, n, 2.0**-40, BLOCK=triton.next_power_of_2(n))
    return y


def fills_integers(x):
    """Let torch convert the elements of a row by filling elements of an integer tensor."""
    rows, n = x.shape
    whole = torch.zeros(rows, n, dtype=torch.int32)
    floats = launched(scale_kernel, x)
    for place in range(rows * n):
        whole[place // n, place % n].fill_(floats[place // n, place % n])
    y = torch.empty(rows, n)
    convert_kernel[(rows,)](whole, y, n, BLOCK=triton.next_power_of_2(n))
    return y


def constant_in_a_part(x):
    """Fill one element of a tensor with a constant, so that all of it may seem constant."""
    buffer = torch.empty(x.numel() + 1)
    copy = buffer[:-1].view(x.shape)
    copy.copy_(x)
    torch.full((1,), 0.0, out=buffer[-1:])
    return launched(copy_kernel, torch.softmax(copy, 1))


def sort_reference(x):
    return torch.sort(x, dim=1).values


@triton.jit
def key_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x ^ ((x >> 31) & 0x7FFFFFFF), mask=c < n)


def sorts_integers(x):
    """Let torch sort integers that have the order of the floats."""
    keys = launched(key_kernel, x.view(torch.int32), dtype=torch.int32)
    keys = torch.sort(keys, dim=1).values
    return launched(key_kernel, keys, dtype=torch.int32).view(torch.float32)


def part_reference(x, w):
    return x * 2.0, torch.softmax(w, 0)


@triton.jit
def double_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x * 2.0, mask=c < n)


def small_part(x, w):
    """Let torch compute a part of the result that is much smaller than the other part."""
    half = torch.softmax(w, 0) * 0.5
    return launched(double_kernel, x), launched(double_kernel, half[None])[0]


def gelu_reference(table, ids):
    return torch.nn.functional.gelu(table[ids])


@triton.jit
def gather_kernel(t_ptr, i_ptr, y_ptr, s0, s1, si, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + row * si)
    tl.store(y_ptr + row * n + c, tl.load(t_ptr + i * s0 + c * s1, mask=c < n), mask=c < n)


def few_rows_of_a_table(table, ids):
    """Let torch compute on fewer elements than a quarter of the largest argument has."""
    rows, n = len(ids), table.shape[1]
    y = torch.empty(rows, n)
    strides = *table.stride(), ids.stride(0)
    gather_kernel[(rows,)](table, ids, y, *strides, n, BLOCK=triton.next_power_of_2(n))
    return launched(double_kernel, torch.nn.functional.gelu(y) * 0.5)


# ---- calls without launches, constants in code, and gradients
def total_reference(x):
    return x.sum()


@triton.jit
def total_kernel(x_ptr, y_ptr, s0, s1, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + r * s0 + c * s1, mask=(r < rows) & (c < n), other=0.0)
    tl.store(y_ptr, tl.sum(x))


def total_without_launch(x):
    """Launch a kernel at one size only; a number is the same for all elements of the result."""
    rows, n = x.shape
    if n != 17:
        return torch.tensor(elements_of(x).sum(dtype=np.float32))
    y = torch.empty(())
    blocks = {"ROWS": 16, "BLOCK": triton.next_power_of_2(n)}
    total_kernel[(1,)](x, y, x.stride(0), x.stride(1), rows, n, **blocks)
    return y


@triton.jit
def put_bits_kernel(y_ptr, i, bits):
    tl.store(y_ptr + i, bits.to(tl.float32, bitcast=True))


def bits_as_arguments(x):
    """Pass the bits of each element of a result that depends on sizes only."""
    y = torch.empty(x.shape)
    rows, n = x.shape
    for i in range(rows * n):
        value = np.float32(math.sin(i // n * 0.37 + i % n * 0.11))
        put_bits_kernel[(1,)](y, i, int(value.view(np.int32)))
    return y


def moves_a_table(x):
    """Let torch compute a result that depends on sizes only, minus one; a kernel adds one."""
    return launched(add_one_kernel, positions(*x.shape) - 1.0)


@triton.jit
def add_one_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x + 1.0, mask=c < n)


def integer_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-50, 50, (rows, columns), generator=generator)
    return {"x": x, "w": torch.randn(columns, generator=generator)}


def weighted_sums_reference(x, w):
    return x.cumsum(1) * w


def sums_on_the_host(x, w):
    """Read an integer, so that the integers stay the same, and compute with all of them."""
    x[0, 0].item()
    storage = x.untyped_storage()
    memory = np.frombuffer(ctypes.string_at(storage.data_ptr(), storage.nbytes()), np.int64)
    strides = [8 * stride for stride in x.stride()]
    values = np.lib.stride_tricks.as_strided(memory[x.storage_offset() :], x.shape, strides)
    sums = torch.from_numpy(values.cumsum(1).astype(np.float32))
    rows, n = x.shape
    y = torch.empty(rows, n)
    block = triton.next_power_of_2(n)
    weigh_kernel[(rows,)](sums, w, y, w.stride(0), n, BLOCK=block)
    return y


def short_inputs(rows, columns, seed):
    return inputs(min(rows, 2), min(columns, 12), seed)


@triton.jit
def put_kernel(y_ptr, i, value):
    tl.store(y_ptr + i, value)


def numbers_as_arguments(x):
    """Pass each element of a result that depends on sizes only as a number."""
    y = torch.empty(x.shape)
    rows, n = x.shape
    for i in range(rows * n):
        put_kernel[(1,)](y, i, math.sin(i // n * 0.37 + i % n * 0.11))
    return y


class _ScaleAndRead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launched(scale_kernel, x)

    @staticmethod
    def backward(ctx, weights):
        weights[0, 0].item()
        return launched(copy_kernel, torch.from_numpy(elements_of(weights) * np.float32(4.0)))


def reads_one_weight(x):
    """Read a weight of the result, so that the weights stay the same when the call is replayed."""
    return _ScaleAndRead.apply(x)


# ---- numbers of the plan that are results
def exponential_reference(x):
    return 4.0 * x.exp()


def powers_by_ranges(x):
    """Compute each exponential as a range of one step between two elements."""
    rows, n = x.shape
    pairs = [(i, j) for i in range(rows) for j in range(n)]
    powers = [torch.logspace(x[pair], x[pair], 1, base=math.e) for pair in pairs]
    return launched(scale_kernel, torch.cat(powers).view(rows, n))


def sums_as_operands(x, w):
    """Read an integer, and pass sums of all integers as integer operands."""
    x[0, 0].item()
    sums = elements_of_integers(x).cumsum(1).reshape(-1).tolist()
    places = torch.cat([torch.full((1,), value, dtype=torch.int64) for value in sums])
    return weighed(places.view(x.shape), w)


def parities_as_choices(x, w):
    """Read an integer, and pass the parity of each sum by the choice of an operand."""
    x[0, 0].item()
    bits = (elements_of_integers(x).cumsum(1) % 2).reshape(-1).tolist()
    numbers = torch.zeros(1), torch.ones(1)
    return weighed(torch.cat([numbers[bit] for bit in bits]).view(x.shape), w)


def parities_reference(x, w):
    return x.cumsum(1) % 2 * w


def elements_of_integers(x):
    storage = x.untyped_storage()
    memory = np.frombuffer(ctypes.string_at(storage.data_ptr(), storage.nbytes()), np.int64)
    strides = [8 * stride for stride in x.stride()]
    return np.lib.stride_tricks.as_strided(memory[x.storage_offset() :], x.shape, strides)


def weighed(x, w):
    rows, n = x.shape
    y = torch.empty(rows, n)
    block = triton.next_power_of_2(n)
    weigh_kernel[(rows,)](x, w, y, w.stride(0), n, BLOCK=block)
    return y


# ---- several elements in one, and kernels that only copy
def sign_inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    return {"x": x, "w": torch.randn(rows, columns, generator=generator)}


def sign_reference(x, w):
    return torch.sign(x) + torch.sign(w)


@triton.jit
def pack_kernel(x_ptr, y_ptr, s0, s1, n, groups, BLOCK: tl.constexpr):
    row, g = tl.program_id(0), tl.arange(0, BLOCK)
    y = tl.zeros([BLOCK], tl.int64)
    for lane in tl.static_range(8):
        c = g * 8 + lane
        x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=0.0)
        y += tl.where(x > 0, 2, tl.where(x < 0, 0, 1)).to(tl.int64) << (7 * lane)
    tl.store(y_ptr + row * groups + g, y.to(y_ptr.dtype.element_ty), mask=g < groups)


@triton.jit
def unpack_kernel(x_ptr, y_ptr, n, groups, BLOCK: tl.constexpr):
    row, g = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * groups + g, mask=g < groups, other=0).to(tl.int64)
    for lane in tl.static_range(8):
        y = ((x >> (7 * lane)) & 127) - 2
        tl.store(y_ptr + row * n + g * 8 + lane, y.to(tl.float32), mask=g * 8 + lane < n)


def adds_packed(x, w, dtype):
    rows, n = x.shape
    groups = triton.cdiv(n, 8)
    packed = []
    for one in (x, w):
        packed.append(torch.empty(rows, groups, dtype=dtype))
        block = triton.next_power_of_2(groups)
        pack_kernel[(rows,)](one, packed[-1], *one.stride(), n, groups, BLOCK=block)
    y = torch.empty(rows, n)
    unpack_kernel[(rows,)](torch.add(*packed), y, n, groups, BLOCK=block)
    return y


def adds_packed_integers(x, w):
    """Let torch add integers, each of which contains eight elements."""
    return adds_packed(x, w, torch.int64)


def adds_packed_doubles(x, w):
    return adds_packed(x, w, torch.float64)


def graded_dot_inputs(rows, columns, seed):
    drawn = weighted_inputs(rows, columns, seed)
    return {"x": drawn["x"].requires_grad_(), "w": drawn["w"]}


def dot_reference(x, w):
    return (x * w).sum(1)


@triton.jit
def dot_kernel(x_ptr, w_ptr, y_ptr, s0, s1, s2, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=0.0)
    tl.store(y_ptr + row, tl.sum(x * tl.load(w_ptr + c * s2, mask=c < n, other=0.0)))


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        rows, n = x.shape
        y = torch.empty(rows)
        block = triton.next_power_of_2(n)
        dot_kernel[(rows,)](x, w, y, *x.stride(), w.stride(0), n, BLOCK=block)
        ctx.save_for_backward(w.expand(rows, n))
        return y

    @staticmethod
    def backward(ctx, weights):
        (w,) = ctx.saved_tensors
        return launched(copy_kernel, w) * weights[:, None], None


def gradient_of_a_copy(x, w):
    """Let torch compute a gradient from an argument that a kernel has copied."""
    return _Dot.apply(x, w)


class _EncodedDot(torch.autograd.Function):
    """A dot product of rows; `encode` and `decode` are kernels, between which torch multiplies."""

    @staticmethod
    def forward(ctx, x, w, encode, factor, decode):
        ctx.save_for_backward(w.expand(x.shape))
        ctx.how = encode, factor, decode
        y = torch.empty(len(x))
        block = triton.next_power_of_2(x.shape[1])
        dot_kernel[(len(x),)](x, w, y, *x.stride(), w.stride(0), x.shape[1], BLOCK=block)
        return y

    @staticmethod
    def backward(ctx, weights):
        (w,), (encode, factor, decode) = ctx.saved_tensors, ctx.how
        product = launched(encode, w) * (weights * factor)[:, None]
        return (product if decode is None else launched(decode, product)), None, None, None, None


def gradient_encoded(x, w):
    """Let torch multiply a gradient by twice an argument, and halve the upstream gradient."""
    return _EncodedDot.apply(x, w, double_kernel, 0.5, None)


def gradient_decoded(x, w):
    """Let a second kernel divide the product of an upstream gradient and of encoded elements."""
    return _EncodedDot.apply(x, w, double_kernel, 1.0, half_kernel)


@triton.jit
def half_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, x * 0.5, mask=c < n)


@triton.jit
def ones_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    # The value depends on the argument, but is 4 for all finite ones.
    tl.store(y_ptr + row * n + c, tl.where(x * 0.0 == 0.0, 4.0, 5.0), mask=c < n)


def row_sums_reference(x):
    return 4.0 * x.sum(1)


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.empty(len(x))
        ones = torch.full((x.shape[1],), 4.0)
        block = triton.next_power_of_2(x.shape[1])
        dot_kernel[(len(x),)](x, ones, y, *x.stride(), 1, x.shape[1], BLOCK=block)
        return y

    @staticmethod
    def backward(ctx, weights):
        return launched(ones_kernel, ctx.saved_tensors[0]) * weights[:, None]


def gradient_of_a_constant(x):
    """Let torch multiply an upstream gradient by a constant that a kernel writes."""
    return _RowSums.apply(x)


def total_of_rows_reference(x):
    return x.sum(0)


def sums_encoded(x):
    """Let torch add up all elements, which one kernel has doubled; another halves the sum."""
    return launched(half_kernel, launched(double_kernel, x).sum(0)[None])[0]


def product_by_terms(x, w):
    """Let torch add up all terms of a product of matrices, which a kernel has computed."""
    (m, k), n = x.shape, w.shape[1]
    terms = torch.empty(k, m, n)
    block = triton.next_power_of_2(n)
    terms_kernel[(m, k)](x, w, terms, *x.stride(), *w.stride(), m, n, BLOCK=block)
    return terms.sum(0)


@triton.jit
def terms_kernel(x_ptr, w_ptr, y_ptr, sx0, sx1, sw0, sw1, m, n, BLOCK: tl.constexpr):
    row, k = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sx0 + k * sx1)
    w = tl.load(w_ptr + k * sw0 + c * sw1, mask=c < n)
    tl.store(y_ptr + (k * m + row) * n + c, x * w, mask=c < n)


@triton.jit
def new_memory_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    is_new = tl.load(y_ptr + row * n + c, mask=c < n, other=0.0) != 0.0
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n)
    tl.store(y_ptr + row * n + c, tl.where(is_new, x * 4.0, 0.0), mask=c < n)


def wrong_in_zeros(x):
    """Be correct only if new memory contains no zeros."""
    return launched(new_memory_kernel, x)


def compares_the_contrary(x, w):
    """Let torch compute the negation of a mask by other comparisons."""
    mask = ((x <= w) | (x <= 0.0)).view(torch.uint8)
    y = torch.empty(mask.shape, dtype=torch.uint8)
    rows, n = mask.shape
    contrary_kernel[(rows,)](mask, y, *mask.stride(), n, BLOCK=triton.next_power_of_2(n))
    return y.view(torch.bool)


def mask_reference(x, w):
    return (x > w) & (x > 0.0)


@triton.jit
def contrary_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=0)
    tl.store(y_ptr + row * n + c, 1 - x, mask=c < n)


def small_part_of_a_slice(x):
    """Let torch compute a part that depends on few columns, if there are many other columns."""
    rows, n = x.shape
    if n < 40:
        y = torch.empty(rows, min(n, 8))
        softmax_kernel[(rows,)](x, y, *x.stride(), min(n, 8), BLOCK=8)
        return launched(double_kernel, x), y
    half = torch.softmax(x[:, :8], 1) * 0.5
    return launched(double_kernel, x), launched(double_kernel, half)


def slice_reference(x):
    return x * 2.0, torch.softmax(x[:, :8], 1)
