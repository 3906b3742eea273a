"""Tests of inline PTX: bit operations, packing, conversions and errors, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from vector_jit import apply, make_op

from ttools import ir
from ttools.core.errors import UnsupportedError
from ttools.interpreter.elementwise import cost, has_effects, is_lanewise, lower
from ttools.interpreter.elementwise.ptx import HANDLERS
from ttools.interpreter.elementwise.ptx.registers import parse_constraints
from ttools.interpreter.elementwise.ptx.syntax import PtxSyntaxError, parse
from ttools.interpreter.elementwise.ptx.types import TYPES, literal_bits
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import body_text
from ttools.interpreter.llvm.value import SSAValue

RANDOM = np.random.default_rng(3)


def words(count: int = 64) -> np.ndarray[Any, Any]:
    return RANDOM.integers(0, 2**32, count, dtype=np.uint32).view(np.int32)


def asm(
    text: str, constraints: str, inputs: str, outputs: str, *arrays: Any, **options: Any
) -> Any:
    """Return the results of an assembly string."""
    return apply(
        "tt.elementwise_inline_asm",
        inputs.split(),
        outputs.split(),
        *arrays,
        width=options.get("width", 16),
        asm_string=text,
        constraints=constraints,
        packed_element=options.get("pack", 1),
        pure=True,
    )


def test_elements_shorter_than_a_register() -> None:
    """Check that registers are zero-extended, and that results are truncated."""
    x = np.arange(-32, 32, dtype=np.int8)
    np.testing.assert_array_equal(
        asm("shr.u32 $0, $1, 1;", "=r,r", "i8", "i8", x), (x.view(np.uint8) >> 1).view(np.int8)
    )
    values = np.linspace(-1, 1, 64, dtype=np.float32)
    actual = asm("xor.b32 $0, $1, 0x80000000;", "=r,r", "f32", "f32", values)
    np.testing.assert_array_equal(actual, -values)


# ---- every table, every selector
@pytest.mark.parametrize("first", range(0, 256, 32))
def test_every_table_of_lop3(first: int) -> None:
    a, b, c = words(), words(), words()
    tables = range(first, first + 32)
    text = " ".join(f"lop3.b32 ${i}, $32, $33, $34, {table};" for i, table in enumerate(tables))
    constraints = ",".join(["=r"] * 32 + ["r"] * 3)
    results = asm(text, constraints, "i32 i32 i32", "i32 " * 32, a, b, c)
    for table, actual in zip(tables, results, strict=True):
        expected = np.zeros_like(a)
        for bit in range(32):
            index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
            expected |= (table >> index & 1) << bit
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("width", [1, 2, 16])
def test_prmt(width: int) -> None:
    a, b, selector = words(), words(), words()
    actual = asm(
        "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", "i32 i32 i32", "i32", a, b, selector, width=width
    )
    bytes_ = np.stack([a, b], 1).view(np.int8)
    expected = np.zeros((len(a), 4), np.int8)
    for i in range(4):
        nibble = selector >> (4 * i) & 15
        chosen = bytes_[np.arange(len(a)), nibble & 7]
        expected[:, i] = np.where(nibble & 8, chosen >> 7, chosen)
    np.testing.assert_array_equal(actual, expected.view(np.int32)[:, 0])


@pytest.mark.parametrize("amount", [0, 1, 17, 31, 32, 40])
def test_funnel_shift(amount: int) -> None:
    low, high = words(), words()
    pairs = high.astype(np.uint32).astype(object) * 2**32 + low.astype(np.uint32).astype(object)
    for mode, n in (("wrap", amount % 32), ("clamp", min(amount, 32))):
        left = asm(f"shf.l.{mode}.b32 $0, $1, $2, {amount};", "=r,r,r", "i32 i32", "i32", low, high)
        right = asm(
            f"shf.r.{mode}.b32 $0, $1, $2, {amount};", "=r,r,r", "i32 i32", "i32", low, high
        )
        for actual, wide in ((left, (pairs << n) >> 32), (right, pairs >> n)):
            np.testing.assert_array_equal(actual.view(np.uint32), [x % 2**32 for x in wide])


# ---- elements and registers
@pytest.mark.parametrize("width", [4, 8, 16])
def test_four_bytes_share_a_register_in_order(width: int) -> None:
    x = np.arange(64, dtype=np.int8)
    # The product of the register is a prefix sum: each byte is the sum of the bytes up to it.
    actual = asm("mul.lo.u32 $0, $1, 0x01010101;", "=r,r", "i8", "i8", x % 16, pack=4, width=width)
    np.testing.assert_array_equal(actual, np.cumsum((x % 16).reshape(-1, 4), 1, np.int8).ravel())


def test_two_halves_share_a_register_in_order() -> None:
    x = np.arange(64, dtype=np.int16)
    swapped = asm("prmt.b32 $0, $1, 0, 0x1032;", "=r,r", "i16", "i16", x, pack=2)
    np.testing.assert_array_equal(swapped, x.reshape(-1, 2)[:, ::-1].ravel())


def test_elements_of_different_sizes() -> None:
    """Check that four bytes need one register, four 16-bit results two, and 64-bit ones four."""
    x = RANDOM.integers(0, 256, 64, dtype=np.uint8).view(np.int8)
    text = """
    prmt.b32 $0, $6, 0, 0x4140; prmt.b32 $1, $6, 0, 0x4342;
    { .reg .b32 t; and.b32 t, $6, 255; cvt.u64.u32 $2, t; bfe.u32 t, $6, 8, 8; cvt.u64.u32 $3, t;
      bfe.u32 t, $6, 16, 8; cvt.u64.u32 $4, t; shr.u32 t, $6, 24; cvt.u64.u32 $5, t; }"""
    short, long = asm(text, "=r,=r,=l,=l,=l,=l,r", "i8", "i16 i64", x, pack=4)
    np.testing.assert_array_equal(short, x.view(np.uint8))
    np.testing.assert_array_equal(long, x.view(np.uint8))


def test_fewer_lanes_than_an_instance() -> None:
    x = np.arange(64, dtype=np.int8)
    for width in (1, 2):
        actual = asm("and.b32 $0, $1, 0x0f0f0f0f;", "=r,r", "i8", "i8", x, pack=4, width=width)
        np.testing.assert_array_equal(actual, x & 15)


def test_bfloat16_pairs() -> None:
    a, b, c = (RANDOM.standard_normal(64).astype(ml_dtypes.bfloat16) for _ in range(3))
    actual = asm("fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", "bf16 " * 3, "bf16", a, b, c, pack=2)
    wide = [v.astype(np.float64) for v in (a, b, c)]
    expected = (wide[0] * wide[1] + wide[2]).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(actual.view(np.uint16), expected.view(np.uint16))


def test_tied_operand_is_its_output() -> None:
    x, y = words(), words()
    actual = asm("add.u32 $0, $1, $2;", "=r,0,r", "i32 i32", "i32", x, y)
    np.testing.assert_array_equal(actual, x + y)


def test_guards_blocks_and_shadowed_names() -> None:
    x = words()
    text = """
    .reg .pred %p<2>; .reg .s32 t;
    mov.s32 t, 7;
    { .reg .s32 t; mov.s32 t, 100; setp.lt.s32 %p1, $1, 0; /* p0 stays unused */ }
    mov.b32 $0, t;
    @!%p1 add.s32 $0, $0, 1; // 8 where not negative
    """
    np.testing.assert_array_equal(asm(text, "=r,r", "i32", "i32", x), np.where(x < 0, 7, 8))


# ---- conversions that an H200 lacks
def test_four_bit_floats() -> None:
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    code = np.arange(256, dtype=np.int32)
    text = "{ .reg .b8 t; cvt.u8.u32 t, $1; cvt.rn.f16x2.e2m1x2 $0, t; }"
    decoded = asm(text, "=r,r", "i32", "i32", code).view(np.float16).reshape(-1, 2)
    for half, nibble in ((0, code & 15), (1, code >> 4)):
        expected = np.where(nibble & 8, -values[nibble & 7], values[nibble & 7])
        np.testing.assert_array_equal(decoded[:, half], expected)

    x = np.concatenate([RANDOM.standard_normal(40) * 4, [np.nan, np.inf, -np.inf, -0.0]])
    x = np.concatenate([x, [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -5, 100]])
    x = x.astype(np.float32)
    text = "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, $2, $1; cvt.u32.u8 $0, t; }"
    actual = asm(text, "=r,f,f", "f32 f32", "i32", x, -x)
    with np.errstate(invalid="ignore"):
        for shift, value in ((0, x), (4, -x)):
            bounded = np.clip(value, -6, 6)
            expected = bounded.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
            expected = np.where(np.isnan(value), 7, expected)
            np.testing.assert_array_equal(actual >> shift & 15, expected & 15)


def test_scales() -> None:
    x = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    x = np.concatenate([x, x[:-1] * np.float32(1.25), [np.inf, np.nan, 0]]).astype(np.float32)
    up = asm("cvt.rp.satfinite.ue8m0x2.f32 $0, 0.0, $1;", "=h,r", "f32", "i16", x)
    down = asm("cvt.rz.satfinite.ue8m0x2.f32 $0, $1, 0.0;", "=h,r", "f32", "i16", x)
    wide = x.astype(np.float64)
    with np.errstate(divide="ignore"):
        exponent = np.log2(wide) + 127
    for code, rounded in ((up, np.ceil(exponent)), ((down >> 8) & 255, np.floor(exponent))):
        expected = np.where(np.isnan(wide), 255, np.clip(rounded, 0, 254))
        np.testing.assert_array_equal(code & 255, expected.astype(np.int16))


def test_two_floats_at_once() -> None:
    a, b = (RANDOM.standard_normal(64).astype(np.float32) for _ in range(2))
    text = """{ .reg .b64 ra, rb, rc; mov.b64 ra, { $2, $3 }; mov.b64 rb, { $4, $5 };
    add.f32x2 rc, ra, rb; mov.b64 { $0, $1 }, rc; }"""
    actual = asm(text, "=r,=r,r,r,r,r", "f32 f32", "f32", a, b, pack=2)
    np.testing.assert_array_equal(actual, a + b)


# ---- in kernels
@triton.jit
def timer_kernel(out):
    start = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    now = start
    while now - start < 200000:
        now = tl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
        )
    core = tl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out, now - start)
    tl.store(out + 1, core)


def test_globaltimer_counts_nanoseconds() -> None:
    out = torch.zeros(2, dtype=torch.int64)
    timer_kernel[(1,)](out)
    assert 200_000 <= out[0] < 10**10
    assert out[1] == 0


@triton.jit
def dequantize_kernel(x, out, N: tl.constexpr):
    packed = tl.load(x + tl.arange(0, N))
    low, high = tl.inline_asm_elementwise(
        """{
        .reg .b32 t;
        lop3.b32 t, $2, 0x000f000f, 0x64006400, 0xea;
        sub.f16x2 $0, t, $3;
        shr.u32 t, $2, 4;
        lop3.b32 t, t, 0x000f000f, 0x64006400, 0xea;
        sub.f16x2 $1, t, $3;
        }""",
        "=r,=r,r,r",
        [packed, tl.full((N,), 0x64006400, tl.int32)],
        dtype=(tl.int32, tl.int32),
        is_pure=True,
        pack=1,
    )
    tl.store(out + tl.arange(0, N), low)
    tl.store(out + N + tl.arange(0, N), high)


def test_four_bit_integers_to_float16() -> None:
    x = torch.randint(-(2**31), 2**31, (128,), dtype=torch.int32)
    out = torch.zeros(256, dtype=torch.int32)
    dequantize_kernel[(1,)](x, out, N=128)
    halves = out.numpy().view(np.float16).reshape(2, 128, 2)
    bits = x.numpy()
    for part, shift in ((0, 0), (1, 4)):
        for half in (0, 1):
            expected = bits >> (shift + 16 * half) & 15
            np.testing.assert_array_equal(halves[part, :, half], expected)


@triton.jit
def mixing_kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    values = tl.load(x + rows[:, None] * N + columns[None, :])
    sums = tl.inline_asm_elementwise(
        "mul.lo.u32 $0, $1, 0x01010101;", "=r,r", [values], dtype=tl.int8, is_pure=True, pack=4
    )
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(sums))


def test_neighbouring_elements_share_a_register() -> None:
    x = torch.randint(0, 16, (8, 32), dtype=torch.int8)
    out = torch.zeros(32, 8, dtype=torch.int8)
    mixing_kernel[(1,)](x, out, M=8, N=32)
    expected = np.cumsum(x.numpy().reshape(8, 8, 4), -1, dtype=np.int8).reshape(8, 32)
    np.testing.assert_array_equal(out.numpy(), expected.T)


@triton.jit
def storing_kernel(out, N: tl.constexpr):
    pointers = out + tl.arange(0, N)
    tl.inline_asm_elementwise(
        "st.global.b32 [$1], 1;", "=r,l", [pointers], dtype=tl.int32, is_pure=False, pack=1
    )


def test_effects_are_errors_even_if_the_result_is_unused() -> None:
    with pytest.raises(UnsupportedError, match=r"st\.global\.b32"):
        storing_kernel[(1,)](torch.zeros(32, dtype=torch.int32), N=32)


# ---- errors
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ld.global.b32 $0, [$1];", "`ld.global.b32 $0, [$1]`"),
        ("st.global.b32 [$1], $0;", "`st.global.b32 [$1], $0`"),
        ("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", "`shfl.sync.bfly.b32"),
        ("mov.u32 $0, %tid.x;", "%tid.x is not a known register"),
        ("mov.u32 $0, %laneid;", "%laneid is not a known register"),
        ("add.cc.u32 $0, $1, $1;", "modifier .cc"),
        ("add.rz.f16 $0, $1, $1;", "$1 has 32 bits, but .f16 is required"),
        ("add.u64 $0, $1, $1;", "$1 has 32 bits, but .u64 is required"),
        ("add.u32 $0, $1;", "2 operands"),
        ("add.f32 $0, $1, 1;", "1 as a value of type .f32"),
        ("add.u32 $0, $1, t;", "t is not a known register"),
        ("{ .reg .b32 t; add.u32 $0, $1, t; }", "t is read before it is written"),
        ("again: add.u32 $0, $1, $1;", "label again"),
        ("add.u32 $0, $1, $1", ""),
        ("bra again;", "`bra again`"),
        ("v_and_b32 $0, 0xffff0000, $1", "`v_and_b32"),
        ("cvt.rn.satfinite.e3m2x2.f32 $0, $1, $1;", "`cvt.rn.satfinite.e3m2x2.f32"),
        ("ex2.f32 $0, $1;", "only with .approx"),
        ("bar.red.popc.u32 $0, 0, $1;", "`bar.red"),
        ("prmt.b32.f5e $0, $1, $1, 0;", "modifier .f5e"),
        ("lop3.b32 $0, $1, $1, $1, $1;", "not a literal"),
        ("mov.u32 $0, $2;", "$2 is not a known register"),
        ("", "output $0 is never written"),
        ("{ mov.u32 $0, $1;", "closing brace"),
    ],
)
def test_errors(text: str, sentence: str) -> None:
    op = make_op(
        "tt.elementwise_inline_asm",
        ["i32"],
        ["i32"],
        {"asm_string": text, "constraints": "=r,r", "packed_element": 1},
    )
    if not sentence:
        assert len(lower(Builder(), op, 16, [SSAValue("%x", "<16 x i32>")])) == 1
        return
    with pytest.raises(UnsupportedError) as refusal:
        lower(Builder(), op, 16, [SSAValue("%x", "<16 x i32>")])
    assert "inline PTX assembly" in str(refusal.value)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("constraints", "kinds", "pack", "sentence"),
    [
        ("=r", ["i32"], 1, "0 input constraints for 1 operand registers"),
        ("=r,r,r", ["i32"], 1, "2 input constraints for 1 operand registers"),
        ("=r,=r,r", ["i32"], 1, "2 output constraints for 1 result registers"),
        ("=v,v", ["i32"], 1, 'constraint "v"'),
        ("=r,h", ["i32"], 1, "a 16-bit register cannot be used for a 32-bit operand"),
        ("=h,r", ["i32"], 1, "output register that is too small"),
        ("=r,r", ["i32"], 3, "pack = 3"),
    ],
)
def test_invalid_constraints(constraints: str, kinds: list[str], pack: int, sentence: str) -> None:
    attributes = {
        "asm_string": "mov.b16 $0, 0;" if "=h" in constraints else "mov.b32 $0, 0;",
        "constraints": constraints,
        "packed_element": pack,
    }
    if constraints.startswith("=r,=r"):
        attributes["asm_string"] = "mov.b32 $0, 0; mov.b32 $1, 0;"
    op = make_op("tt.elementwise_inline_asm", kinds, ["i32"], attributes)
    with pytest.raises(UnsupportedError) as refusal:
        lower(Builder(), op, 16, [SSAValue("%x", "<16 x i32>")])
    assert sentence in str(refusal.value)


def test_a_part_of_an_instance_is_an_error() -> None:
    """Check the error if only a part of the elements that share a register is lowered."""
    op = make_op(
        "tt.elementwise_inline_asm",
        ["i8"],
        ["i8"],
        {"asm_string": "mov.b32 $0, $1;", "constraints": "=r,r", "packed_element": 4},
    )
    op.results[0].define(ir.TensorType((64,), ir.IntegerType(8)), op, 0, None)
    with pytest.raises(
        UnsupportedError, match="pack = 4, but only 1 elements are computed at once"
    ):
        lower(Builder(), op, 1, [SSAValue("%x", "i8")])


def test_barriers_and_fences_can_name_an_output() -> None:
    for text in ("bar.sync 0;", "griddepcontrol.wait; // dummy $0", "fence.acq_rel.gpu;"):
        op = make_op(
            "tt.elementwise_inline_asm", [], ["i32"], {"asm_string": text, "constraints": "=r"}
        )
        builder = Builder()
        assert lower(builder, op, 1, []) == ["0"]
        assert ("  fence seq_cst" in body_text(builder.lines)) == text.startswith("fence")


# ---- parts
def test_properties_for_the_schedule() -> None:
    attributes = {"asm_string": "mov.b32 $0, $1;", "packed_element": 1, "pure": True}
    op = make_op("tt.elementwise_inline_asm", ["i32"], ["i32"], attributes)
    assert cost(op) > 0
    assert is_lanewise(op)
    assert not has_effects(op)
    op.attributes["packed_element"] = 2
    op.attributes["pure"] = False
    assert not is_lanewise(op)
    assert has_effects(op)
    timer = make_op("tt.elementwise_inline_asm", [], ["i64"], {"pure": False})
    assert cost(timer) > 0
    assert is_lanewise(make_op("arith.addi", ["i32", "i32"], ["i32"], {}))


@pytest.mark.parametrize(
    ("text", "type", "bits"),
    [
        ("10", "u32", 10),
        ("010", "u32", 8),
        ("0x1F", "b32", 31),
        ("0xFFU", "b32", 255),
        ("0b101", "b32", 5),
        ("-1", "s16", 0xFFFF),
        ("0f3F800000", "f32", 0x3F800000),
        ("0f3F800000", "b32", 0x3F800000),
        ("-0f3F800000", "f32", 0xBF800000),
        ("0f3F800000", "f64", 0x3FF0000000000000),
        ("0d3FF0000000000000", "f64", 0x3FF0000000000000),
        ("1.5", "f32", 0x3FC00000),
        ("-1.5e1", "f32", 0xC1700000),
        ("1.5", "f64", 0x3FF8000000000000),
        ("1.5", "b32", None),
        ("1", "f32", None),
        ("0f3F800000", "f16", None),
        ("1.5", "bf16", None),
    ],
)
def test_literals(text: str, type: str, bits: int | None) -> None:
    assert literal_bits(text, TYPES[type]) == bits


def test_syntax_errors() -> None:
    for text in ("}", "{", "add $0,, $1;", ".reg .b32;", ".local .b32 t;", "add # $0;", "x: y;"):
        with pytest.raises(PtxSyntaxError):
            parse(text)


def test_constraint_strings() -> None:
    constraints = parse_constraints("=r, =&l,h,0,~{memory}")
    assert constraints.outputs == (32, 64)
    assert constraints.inputs == (16, 32)
    assert constraints.tied == {1: 0}


def test_documented_instructions() -> None:
    """Check that the reference documents every opcode."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "inline_asm.md"
    text = page.read_text(encoding="utf-8")
    missing = [opcode for opcode in HANDLERS if f"`{opcode}" not in text]
    assert not missing
