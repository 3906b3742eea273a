"""Tests of the parser on kernels that Triton's front end compiles, compared with MLIR."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ttools import ir
from ttools.ir.parser import parse_module


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask, other=1.0)
    tl.store(out + offsets, total, mask=mask)


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + columns, mask=columns < n, other=-float("inf"))
    shifted = value - tl.max(value, axis=0)
    numerator = tl.exp(shifted)
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(out + row * stride + columns, result, mask=columns < n)


@triton.jit
def matmul(a, b, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for step in range(tl.cdiv(k, K)):
        x = tl.load(left, mask=inner[None, :] < k - step * K, other=0.0)
        y = tl.load(right, mask=inner[:, None] < k - step * K, other=0.0)
        total = tl.dot(x, y, total)
        left += K
        right += K * n
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=mask)


@triton.jit
def control(x, n):
    total = 0
    i = n
    while i > 0:
        if i % 2 == 0:
            total += i
        elif i % 3 == 0:
            total -= i
        for j in tl.range(i, num_stages=2):
            total += j
            if j == 7:
                tl.store(x + j, total)
        i -= 1
    if total > 100:
        tl.store(x, total)


@triton.jit
def early_return(x, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    if pid == 0:
        tl.store(x, 1)
        return
    tl.store(x + pid, 2)


@triton.jit
def spin(lock, x):
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.store(x, tl.load(x, volatile=True) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release", scope="cta")


@triton.jit(noinline=True)
def helper(x, y):
    return x + y, x * y


@triton.jit
def calls(x):
    total, product = helper(tl.program_id(0), 5)
    tl.store(x, total)
    tl.store(x + 1, product)


@triton.jit
def combine(a, i, b, j):
    smaller = (a < b) | ((a == b) & (i < j))
    return tl.where(smaller, a, b), tl.where(smaller, i, j)


@triton.jit
def linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def combinations(x, out, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + columns)
    low, where = tl.reduce((value, columns), 0, combine)
    tl.store(out, low + where)
    scale, shift = tl.associative_scan((value, value), 0, linear, reverse=True)
    tl.store(out + columns, scale + shift + tl.cumsum(value, 0))


@triton.jit
def shapes(x, out):
    a = tl.load(x + tl.arange(0, 16))
    pairs = tl.reshape(a, (8, 2), can_reorder=True)
    even, odd = tl.split(pairs)
    joined = tl.join(odd, even).trans()
    both = tl.cat(even, odd, can_reorder=True)
    wide = tl.broadcast_to(even[:, None], (8, 8))
    gathered = tl.gather(a, tl.arange(0, 16) // 2, 0)
    counts = tl.histogram(gathered.to(tl.int32), 16)
    tl.store(out + tl.arange(0, 16), both + gathered + counts.to(tl.float32))
    tl.store(out + tl.arange(0, 16), tl.reshape(joined, (16,)))
    tl.store(out + tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :], wide)


@triton.jit
def conversions(x, out):
    a = tl.load(x + tl.arange(0, 16))
    down = a.to(tl.float8e5, fp_downcast_rounding="rtz").to(tl.bfloat16)
    back = down.to(tl.float16).to(tl.int8).to(tl.uint8).to(tl.float64)
    bits = a.to(tl.int32, bitcast=True) >> 3
    unsigned = bits.to(tl.uint32) // 3
    address = (x + unsigned).to(tl.uint64, bitcast=True)
    tl.store(out + tl.arange(0, 16), back + (address % 7).to(tl.float64))


@triton.jit
def elementary(x, out):
    a = tl.load(x + tl.arange(0, 16))
    b = tl.sqrt(a) + tl.math.sqrt_rn(a) + tl.math.div_rn(a, 3.0) + tl.erf(a) + tl.math.rsqrt(a)
    c = tl.clamp(b, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL) + libdevice.asin(a)
    d = tl.maximum(c, a, propagate_nan=tl.PropagateNan.ALL) + tl.fma(a, b, c) + tl.abs(a)
    e = tl.umulhi(tl.arange(0, 16), 12345).to(tl.float32) + tl.floor(d)
    f = tl.inline_asm_elementwise(
        'mov.b32 $0, $1; // "x"\n', "=r,r", [e], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out + tl.arange(0, 16), tl.where(f > 0, f, -f))


@triton.jit
def memory(x, n):
    tl.assume(n > 0)
    lanes = tl.arange(0, 16)
    a = tl.load(x + lanes, cache_modifier=".cg", eviction_policy="evict_last", volatile=True)
    tl.store(x + lanes, a, mask=lanes < n, cache_modifier=".wt")
    tl.atomic_add(x + lanes, a, mask=lanes < n, sem="relaxed", scope="sys")
    tl.atomic_max(x, 1.0)
    tl.device_print("value:", a, n, hex=True)
    tl.device_print('a "plain" note')


@triton.jit
def descriptors(x, n):
    one = tl.make_tensor_descriptor(x, [n, 16], [16, 1], [4, 16], padding_option="nan")
    tile = one.load([4, 0])
    one.store([0, 0], tile)
    one.atomic_add([0, 0], tile)


_VECTOR = {"x": "*fp32", "out": "*fp32"}
KERNELS: list[tuple[Any, dict[str, Any]]] = [
    (add, {"x": "*fp32", "y": "*bf16", "out": "*fp32", "n": "i32", "BLOCK": 1024}),
    (softmax, {**_VECTOR, "x": "*bf16", "stride": "i32", "n": "i64", "BLOCK": 256}),
    (
        matmul,
        {"a": "*fp16", "b": "*fp16", "out": "*fp16", "m": "i32", "n": "i32", "k": "i32"}
        | {"M": 32, "N": 32, "K": 16},
    ),
    (control, {"x": "*i32", "n": "i32"}),
    (early_return, {"x": "*i32", "n": "i32"}),
    (spin, {"lock": "*i32", "x": "*i32"}),
    (calls, {"x": "*i32"}),
    (combinations, {**_VECTOR, "BLOCK": 64}),
    (shapes, _VECTOR),
    (conversions, {**_VECTOR, "out": "*fp64"}),
    (elementary, _VECTOR),
    (memory, {"x": "*fp32", "n": "i32"}),
    (descriptors, {"x": "*fp16", "n": "i32"}),
]

_all_kernels = pytest.mark.parametrize(
    ("kernel", "parameters"), KERNELS, ids=[kernel.__name__ for kernel, _ in KERNELS]
)
_passes = pytest.mark.parametrize("passes", [False, True], ids=["raw", "cleaned"])


@_all_kernels
@_passes
def test_agrees_with_mlir(
    kernel, parameters, passes, ttir, mlir_shapes, our_shapes, check_links
) -> None:
    text = ttir(kernel, passes=passes, **parameters)
    assert our_shapes(text) == mlir_shapes(text)
    check_links(parse_module(text))


@_all_kernels
@_passes
def test_has_as_many_operations_as_the_text(kernel, parameters, passes, ttir) -> None:
    text = ttir(kernel, passes=passes, **parameters)
    body = re.sub(r'"[^"\n]*\\[^\n]*"', '""', text)
    lines = re.findall(r'^ +(?:%[^=\n]*= )?("?[a-z]+\.[a-z][\w.]*)"?', body, re.MULTILINE)
    written = Counter(line.strip('"') for line in lines)
    parsed = Counter(op.name for f in parse_module(text).functions.values() for op in f.walk())
    # MLIR does not print a yield without values.
    assert parsed.pop("scf.yield", 0) >= written.pop("scf.yield", 0)
    assert parsed == written


def _ops(text: str, name: str) -> list[ir.Operation]:
    module = parse_module(text)
    return [op for f in module.functions.values() for op in f.walk() if op.name == name]


def test_function_and_arguments(ttir: Callable[..., str]) -> None:
    module = parse_module(ttir(add, **KERNELS[0][1]))
    kernel = module.kernel
    assert kernel.attributes["sym_name"] == "add"
    assert kernel.attributes["visibility"] == "public"
    assert kernel.attributes["noinline"] is False
    assert kernel.attributes["result_types"] == ()
    arguments = kernel.regions[0].entry.arguments
    assert [argument.name for argument in arguments] == ["x", "y", "out", "n"]
    assert arguments[1].type == ir.PointerType(ir.FloatType("bf16"))
    assert [argument.location and argument.location.name for argument in arguments] == [
        "x",
        "y",
        "out",
        "n",
    ]


def test_loads_and_masks(ttir: Callable[..., str]) -> None:
    text = ttir(add, **KERNELS[0][1])
    first, second = _ops(text, "tt.load")
    assert len(first.operands) == 2
    assert len(second.operands) == 3
    assert first.result.type == ir.TensorType((1024,), ir.FloatType("f32"))
    comparison = second.operands[1].defining_op
    assert comparison is not None
    assert comparison.attributes["predicate"] == "slt"
    assert second.operands[1].type == ir.TensorType((1024,), ir.IntegerType(1))


def test_reduction_has_a_combine_region(ttir: Callable[..., str]) -> None:
    reduce, scan = (
        _ops(ttir(combinations, **KERNELS[7][1]), name)[0] for name in ("tt.reduce", "tt.scan")
    )
    assert reduce.attributes["axis"] == 0
    assert [str(result.type) for result in reduce.results] == ["f32", "i32"]
    entry = reduce.regions[0].entry
    assert [str(argument.type) for argument in entry.arguments] == ["f32", "i32", "f32", "i32"]
    assert entry.terminator.name == "tt.reduce.return"
    assert scan.attributes["reverse"] is True


def test_loop_carries_values(ttir: Callable[..., str]) -> None:
    text = ttir(matmul, **KERNELS[2][1])
    (loop,) = _ops(text, "scf.for")
    entry = loop.regions[0].entry
    assert len(loop.operands) == 3 + len(loop.results)
    assert [a.type for a in entry.arguments[1:]] == [r.type for r in loop.results]
    assert [v.type for v in entry.terminator.operands] == [r.type for r in loop.results]
    dot = next(op for op in loop.walk() if op.name == "tt.dot")
    assert dot.operands[2] is entry.arguments[3]
    assert dot.attributes["inputPrecision"] == "tf32"


def test_attributes_after_loops(ttir: Callable[..., str]) -> None:
    (loop,) = _ops(ttir(control, **KERNELS[3][1]), "scf.for")
    assert loop.attributes["tt.num_stages"] == 2


def test_while_has_two_regions(ttir: Callable[..., str]) -> None:
    loop = _ops(ttir(control, **KERNELS[3][1]), "scf.while")[0]
    before, after = loop.regions
    assert before.entry.terminator.name == "scf.condition"
    assert after.entry.terminator.name == "scf.yield"
    assert len(before.entry.arguments) == len(loop.operands)
    assert len(after.entry.arguments) == len(loop.results)


def test_branches_between_blocks(ttir: Callable[..., str]) -> None:
    module = parse_module(ttir(early_return, passes=False, **KERNELS[4][1]))
    blocks = module.kernel.regions[0].blocks
    assert len(blocks) > 2
    (condition, *_) = [op for op in module.kernel.walk() if op.name == "cf.cond_br"]
    assert [target in blocks for target, _ in condition.successors] == [True, True]


def test_calls_name_private_functions(ttir: Callable[..., str]) -> None:
    module = parse_module(ttir(calls, **KERNELS[6][1]))
    (call,) = [op for op in module.kernel.walk() if op.name == "tt.call"]
    callee = module.functions[str(call.attributes["callee"])]
    assert callee.attributes["visibility"] == "private"
    assert callee.attributes["result_types"] == tuple(r.type for r in call.results)
    returned = callee.regions[0].entry.terminator
    assert [v.type for v in returned.operands] == [r.type for r in call.results]


def test_memory_attributes(ttir: Callable[..., str]) -> None:
    text = ttir(memory, **KERNELS[11][1])
    load = _ops(text, "tt.load")[0]
    assert load.attributes == {"cache": "cg", "evict": "evict_last", "isVolatile": True}
    add_, *_ = _ops(text, "tt.atomic_rmw")
    assert add_.attributes == {"atomic_rmw_op": "fadd", "sem": "relaxed", "scope": "sys"}
    first, second = _ops(text, "tt.print")
    assert first.attributes["hex"] is True
    assert first.attributes["isSigned"] == (0, 1)
    assert len(first.operands) == 2
    assert 'a "plain" note' in str(second.attributes["prefix"])
    assert second.operands == []


def test_inline_assembly_keeps_its_text(ttir: Callable[..., str]) -> None:
    (asm,) = _ops(ttir(elementary, **_VECTOR), "tt.elementwise_inline_asm")
    assert asm.attributes == {
        "asm_string": 'mov.b32 $0, $1; // "x"\n',
        "constraints": "=r,r",
        "packed_element": 1,
        "pure": True,
    }
