"""Cases of inline PTX to compare with a GPU: assembly strings, registers and samples."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

COUNT = 64

NUMPY = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
}


@dataclass(frozen=True, kw_only=True)
class PtxCase:
    """One assembly string.

    Attributes:
        asm: Text of the assembly.
        constraints: Constraints of the registers.
        inputs: Names of the element types of the inputs in TTIR.
        outputs: Names of the element types of the outputs in TTIR.
        pack: Number of elements per instance of the assembly.
        view: Type as which the outputs are compared (f16 in an i32), or empty for their own.
        tolerance: Relative error of approximate instructions.
        spread: Standard deviation of float samples; 0 for samples of all magnitudes.
    """

    asm: str
    constraints: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pack: int = 1
    view: str = ""
    tolerance: float = 0.0
    spread: float = 0.0


_SPECIAL_FLOATS = (
    *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 448.0, 464.0, 57344.0),
    *(65504.0, 65520.0, 1e-40, -1e-40, 1.1754944e-38, 6e-8, 6e-5, 0.25, 0.75, 5.0, 3.5, 1e38),
)
_SPECIAL_INTEGERS = (0, 1, -1, 2, 5, 31, 32, 33, 63, 64, 255, 0x7FFFFFFF, -0x80000000, 0x80)


def samples(case: PtxCase, position: int) -> np.ndarray[Any, Any]:
    """Return the values of an operand, which are the same on every machine."""
    kind = case.inputs[position]
    seed = zlib.crc32(f"{case.asm}{position}".encode())
    random = np.random.default_rng(seed)
    if kind[0] == "i":
        bits = random.integers(-(2**63), 2**63 - 1, COUNT, endpoint=True)
        bits[:14] = random.permutation(_SPECIAL_INTEGERS)
        bits[14:28] = random.integers(-40, 40, 14)
        return bits.astype(NUMPY[kind])
    if case.spread:
        values = (random.standard_normal(COUNT) * case.spread).astype(np.float32)
    else:
        raw = random.integers(0, 2**32, COUNT, dtype=np.uint32)
        values = raw.view(np.float32)
        values[:26] = random.permutation(_SPECIAL_FLOATS).astype(np.float32)
        values[26:44] = (random.standard_normal(18) * 10).astype(np.float32)
        values[44:54] = (random.standard_normal(10) * 1000).astype(np.float32)
    if kind == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return values.astype(NUMPY[kind])


def _one(asm: str, letters: str, inputs: str, output: str, **more: Any) -> PtxCase:
    constraints = ",".join(["=" + letters[0], *letters[1:]])
    return PtxCase(
        asm=asm,
        constraints=constraints,
        inputs=tuple(inputs.split()),
        outputs=(output,),
        **more,
    )


def _integers() -> list[PtxCase]:
    cases = []
    for op in (
        *("add.u32", "sub.s32", "add.sat.s32", "sub.sat.s32", "mul.lo.u32", "mul.hi.u32"),
        *("mul.hi.s32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32", "or.b32"),
        *("xor.b32", "shl.b32", "shr.u32", "shr.s32", "shr.b32", "div.s32", "div.u32"),
    ):
        asm = f"{op} $0, $1, $2;"
        if op.startswith("div"):
            asm = f"{{ .reg .b32 t; or.b32 t, $2, 1; {op} $0, $1, t; }}"
        cases.append(_one(asm, "rrr", "i32 i32", "i32"))
    for op in ("abs.s32", "neg.s32", "not.b32", "cnot.b32", "popc.b32", "clz.b32", "brev.b32"):
        cases.append(_one(f"{op} $0, $1;", "rr", "i32", "i32"))
    for op in ("bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "bfind.shiftamt.s32"):
        cases.append(_one(f"{op} $0, $1;", "rr", "i32", "i32"))
    for op in (
        *("mad.lo.s32", "mad.hi.u32", "sad.s32", "sad.u32", "bfe.u32", "bfe.s32", "prmt.b32"),
        *("prmt.b32.f4e", "prmt.b32.b4e", "prmt.b32.rc8", "prmt.b32.ecl", "prmt.b32.ecr"),
        *("prmt.b32.rc16", "shf.l.wrap.b32", "shf.r.wrap.b32", "shf.l.clamp.b32"),
        *("shf.r.clamp.b32", "dp4a.s32.s32", "dp4a.u32.u32", "dp4a.u32.s32", "slct.b32.s32"),
    ):
        cases.append(_one(f"{op} $0, $1, $2, $3;", "rrrr", "i32 i32 i32", "i32"))
    for table in (0xF8, 0xEA, 0x96, 0xE8, 0x1B, 0x00, 0xFF, 0xC6):
        asm = f"lop3.b32 $0, $1, $2, $3, {table:#x};"
        cases.append(_one(asm, "rrrr", "i32 i32 i32", "i32"))
    cases.append(_one("bfi.b32 $0, $1, $2, $3, $4;", "rrrrr", "i32 i32 i32 i32", "i32"))
    return cases


def _other_sizes() -> list[PtxCase]:
    cases = []
    for op in ("add.s64", "mul.lo.u64", "mul.hi.s64", "mul.hi.u64", "xor.b64", "min.s64"):
        cases.append(_one(f"{op} $0, $1, $2;", "lll", "i64 i64", "i64"))
    for op in ("shl.b64", "shr.u64", "shr.s64"):
        cases.append(_one(f"{op} $0, $1, $2;", "llr", "i64 i32", "i64"))
    for op in ("bfe.u64", "bfe.s64"):
        cases.append(_one(f"{op} $0, $1, $2, $3;", "llrr", "i64 i32 i32", "i64"))
    cases.append(_one("bfi.b64 $0, $1, $2, $3, $4;", "lllrr", "i64 i64 i32 i32", "i64"))
    for op in ("popc.b64", "clz.b64", "bfind.s64"):
        cases.append(_one(f"{op} $0, $1;", "rl", "i64", "i32"))
    for op in ("mul.wide.s32", "mul.wide.u32"):
        cases.append(_one(f"{op} $0, $1, $2;", "lrr", "i32 i32", "i64"))
    for op in ("mul.wide.s16", "mul.wide.u16"):
        cases.append(_one(f"{op} $0, $1, $2;", "rhh", "i16 i16", "i32"))
    for op in ("add.s16", "mul.lo.s16", "mul.hi.s16", "mul.hi.u16", "min.s16", "max.u16"):
        cases.append(_one(f"{op} $0, $1, $2;", "hhh", "i16 i16", "i16"))
    for op in ("shl.b16", "shr.s16", "shr.u16"):
        cases.append(_one(f"{op} $0, $1, $2;", "hhr", "i16 i32", "i16"))
    for op in ("add.u16x2", "min.s16x2", "max.u16x2", "max.relu.s16x2"):
        cases.append(_one(f"{op} $0, $1, $2;", "rrr", "i16 i16", "i16", pack=2))
    return cases


def _floats() -> list[PtxCase]:
    cases = []
    f32 = {"letters": "fff", "inputs": "f32 f32", "output": "f32"}
    for op in (
        *("add.f32", "add.rn.f32", "add.rz.f32", "add.rm.ftz.f32", "add.rp.f32", "add.ftz.f32"),
        *("sub.f32", "sub.rn.ftz.f32", "mul.f32", "mul.rz.f32", "mul.ftz.f32", "mul.sat.f32"),
        *("div.rn.f32", "div.rz.f32", "min.f32", "max.f32", "min.ftz.f32", "max.NaN.f32"),
        *("min.NaN.f32", "copysign.f32", "add.sat.f32"),
    ):
        cases.append(_one(f"{op} $0, $1, $2;", **f32))
    for op in ("fma.rn.f32", "fma.rn.ftz.f32", "fma.rz.f32", "fma.rn.sat.f32", "mad.rn.f32"):
        cases.append(_one(f"{op} $0, $1, $2, $3;", "ffff", "f32 f32 f32", "f32"))
    for op in ("abs.f32", "neg.f32", "abs.ftz.f32", "neg.ftz.f32", "rcp.rn.f32", "sqrt.rn.f32"):
        cases.append(_one(f"{op} $0, $1;", "ff", "f32", "f32"))
    for op in ("add.f64", "mul.rn.f64", "fma.rn.f64", "min.f64", "div.rn.f64"):
        operands = "$1, $2, $1" if op.startswith("fma") else "$1, $2"
        cases.append(_one(f"{op} $0, {operands};", "ddd", "f64 f64", "f64"))
    for kind in ("f16", "bf16"):
        ops = [f"{op}.{kind}x2" for op in ("add", "sub", "mul", "min", "max", "max.NaN")]
        if kind == "f16":
            ops += ["add.ftz.f16x2", "add.sat.f16x2", "mul.ftz.f16x2", "min.ftz.f16x2"]
        for op in ops:
            asm = f"{op} $0, $1, $2;"
            cases.append(_one(asm, "rrr", f"{kind} {kind}", kind, pack=2))
        for op in ("fma.rn", "fma.rn.relu"):
            asm = f"{op}.{kind}x2 $0, $1, $2, $3;"
            cases.append(_one(asm, "rrrr", f"{kind} {kind} {kind}", kind, pack=2))
        for op in ("abs", "neg"):
            cases.append(_one(f"{op}.{kind}x2 $0, $1;", "rr", kind, kind, pack=2))
    for op in ("add.f16", "mul.rn.f16", "fma.rn.f16"):
        operands = "$1, $2, $1" if op.startswith("fma") else "$1, $2"
        cases.append(_one(f"{op} $0, {operands};", "hhh", "f16 f16", "f16"))
    for op, spread in (
        *(("ex2.approx.f32", 10.0), ("ex2.approx.ftz.f32", 50.0), ("rcp.approx.ftz.f32", 9.0)),
        *(("sin.approx.f32", 1.0), ("cos.approx.f32", 1.0), ("tanh.approx.f32", 1.0)),
    ):
        cases.append(_one(f"{op} $0, $1;", "ff", "f32", "f32", tolerance=2e-3, spread=spread))
    for op in ("lg2.approx.f32", "rsqrt.approx.f32", "sqrt.approx.f32", "lg2.approx.ftz.f32"):
        cases.append(_one(f"{op} $0, $1;", "ff", "f32", "f32", tolerance=1e-4))
    for op in ("ex2.approx.f16x2", "tanh.approx.f16x2"):
        cases.append(_one(f"{op} $0, $1;", "rr", "f16", "f16", pack=2, tolerance=3e-3, spread=2.0))
    for op in ("ex2.approx.ftz.bf16x2", "tanh.approx.bf16x2"):
        cases.append(
            _one(f"{op} $0, $1;", "rr", "bf16", "bf16", pack=2, tolerance=1e-2, spread=2.0)
        )
    return cases


def _conversions() -> list[PtxCase]:
    cases = []
    for mode in ("rni", "rzi", "rmi", "rpi"):
        cases.append(_one(f"cvt.{mode}.s32.f32 $0, $1;", "rf", "f32", "i32"))
        cases.append(_one(f"cvt.{mode}.f32.f32 $0, $1;", "ff", "f32", "f32"))
    for kind in ("u32", "s8", "u8", "s16", "u16"):
        letter = {"8": "r", "6": "h", "2": "r"}[kind[-1]]
        output = {"8": "i32", "6": "i16", "2": "i32"}[kind[-1]]
        cases.append(_one(f"cvt.rni.{kind}.f32 $0, $1;", f"{letter}f", "f32", output))
    cases.append(_one("cvt.rzi.s64.f32 $0, $1;", "lf", "f32", "i64"))
    cases.append(_one("cvt.rzi.u64.f32 $0, $1;", "lf", "f32", "i64"))
    cases.append(_one("cvt.rni.s8.f16 $0, $1;", "rh", "f16", "i32"))
    cases.append(_one("cvt.rzi.s32.f64 $0, $1;", "rd", "f64", "i32"))
    for mode in ("rn", "rz", "rm", "rp"):
        cases.append(_one(f"cvt.{mode}.f32.s32 $0, $1;", "fr", "i32", "f32"))
        cases.append(_one(f"cvt.{mode}.f32.u64 $0, $1;", "fl", "i64", "f32"))
        cases.append(_one(f"cvt.{mode}.f32.f64 $0, $1;", "fd", "f64", "f32"))
    for op in ("s8.s32", "u8.s32", "sat.s8.s32", "sat.u8.s32", "sat.u8.u32", "sat.s8.u32"):
        cases.append(_one(f"cvt.{op} $0, $1;", "rr", "i32", "i32"))
    cases.append(_one("cvt.sat.u16.s32 $0, $1;", "hr", "i32", "i16"))
    cases.append(_one("cvt.s32.s8 $0, $1;", "rr", "i32", "i32"))
    cases.append(_one("cvt.u32.u8 $0, $1;", "rr", "i32", "i32"))
    cases.append(_one("cvt.s64.s32 $0, $1;", "lr", "i32", "i64"))
    cases.append(_one("cvt.sat.f32.f32 $0, $1;", "ff", "f32", "f32"))
    for op in ("rn.f16.s32", "rn.f16.u32"):
        cases.append(_one(f"cvt.{op} $0, $1;", "hr", "i32", "f16"))
    for op in ("rn.f16", "rz.f16", "rn.relu.f16", "rn.ftz.f16", "rn.sat.f16"):
        cases.append(_one(f"cvt.{op}.f32 $0, $1;", "hf", "f32", "f16"))
    for op in ("rn.bf16", "rz.bf16", "rn.relu.bf16"):
        cases.append(_one(f"cvt.{op}.f32 $0, $1;", "hf", "f32", "bf16"))
    cases.append(_one("cvt.f32.f16 $0, $1;", "fh", "f16", "f32"))
    cases.append(_one("cvt.f32.bf16 $0, $1;", "fh", "bf16", "f32"))
    for op, view in (
        *(("rn.f16x2", "f16"), ("rz.f16x2", "f16"), ("rn.relu.f16x2", "f16")),
        *(("rn.bf16x2", "bf16"), ("rz.bf16x2", "bf16"), ("rn.relu.bf16x2", "bf16")),
    ):
        cases.append(_one(f"cvt.{op}.f32 $0, $1, $2;", "rff", "f32 f32", "i32", view=view))
    for kind in ("e4m3x2", "e5m2x2"):
        cases.append(_one(f"cvt.rn.satfinite.{kind}.f32 $0, $1, $2;", "hff", "f32 f32", "i16"))
        cases.append(_one(f"cvt.rn.satfinite.relu.{kind}.f32 $0, $1, $2;", "hff", "f32 f32", "i16"))
        cases.append(_one(f"cvt.rn.satfinite.{kind}.f16x2 $0, $1;", "hr", "i32", "i16"))
        cases.append(_one(f"cvt.rn.f16x2.{kind} $0, $1;", "rh", "i16", "i32", view="f16"))
    for op in ("rna.tf32", "rn.tf32", "rz.tf32", "rn.relu.tf32"):
        cases.append(_one(f"cvt.{op}.f32 $0, $1;", "rf", "f32", "f32"))
    cases.append(_one("cvt.pack.sat.s16.s32 $0, $1, $2;", "rrr", "i32 i32", "i32"))
    cases.append(_one("cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;", "rrrr", "i32 i32 i32", "i32"))
    return cases


def _programs() -> list[PtxCase]:
    cases = []
    for compare in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "geu", "num", "nan"):
        asm = f"{{ .reg .pred p; setp.{compare}.f32 p, $1, $2; selp.b32 $0, 1, 0, p; }}"
        cases.append(_one(asm, "rff", "f32 f32", "i32"))
    for compare in ("lt.s32", "lt.u32", "hs.u32", "eq.b32"):
        asm = (
            f"{{ .reg .pred p; setp.{compare} p, $1, $2; @p mov.b32 $0, $1; @!p mov.b32 $0, $2; }}"
        )
        cases.append(_one(asm, "rrr", "i32 i32", "i32"))
    asm = (
        "{ .reg .pred p, q, r; setp.gt.s32 r, $1, 0; setp.lt.and.s32 p|q, $1, $2, r;"
        " selp.b32 $0, 1, 0, p; @q add.u32 $0, $0, 2; }"
    )
    cases.append(_one(asm, "rrr", "i32 i32", "i32"))
    cases.append(_one("set.gt.u32.f32 $0, $1, $2;", "rff", "f32 f32", "i32"))
    for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        asm = f"{{ .reg .pred p; testp.{name}.f32 p, $1; selp.b32 $0, 1, 0, p; }}"
        cases.append(_one(asm, "rf", "f32", "i32"))
    cases.append(_one("and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, 3;", "rr", "i8", "i8", pack=4))
    # The halves of a pair of float16 are compared separately.
    asm = """{ .reg .pred p<2>; .reg .b16 a<2>, b<2>;
    setp.lt.f16x2 p0|p1, $1, $2; mov.b32 {a0, a1}, $1; mov.b32 {b0, b1}, $2;
    selp.b16 a0, a0, b0, p0; selp.b16 a1, a1, b1, p1; mov.b32 $0, {a0, a1}; }"""
    cases.append(_one(asm, "rrr", "f16 f16", "f16", pack=2))
    asm = """{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $8;
    cvt.u32.u8 $0, t0; cvt.u32.u8 $1, t1; cvt.u32.u8 $2, t2; cvt.u32.u8 $3, t3; }
    cvt.rn.f32.s32 $4, $0; cvt.rn.f32.s32 $5, $1; cvt.rn.f32.s32 $6, $2; cvt.rn.f32.s32 $7, $3;
    max.f32 $4, $4, $9; max.f32 $5, $5, $10; max.f32 $6, $6, $11; max.f32 $7, $7, $12;"""
    cases.append(
        PtxCase(
            asm=asm,
            constraints=",".join(["=r"] * 8 + ["r"] * 5),
            inputs=("i8", "f32"),
            outputs=("i32", "f32"),
            pack=4,
        )
    )
    return cases


#: Triton's conversions of the format e4m3b15, four elements of which share a register.
_FROM_B15 = """{ .reg .b32 a<2>, b<2>; prmt.b32 a0, 0, $2, 0x5746; and.b32 b0, a0, 0x7f007f00;
and.b32 b1, a0, 0x00ff00ff; and.b32 a1, a0, 0x00800080; shr.b32  b0, b0, 1;
add.u32 b1, b1, a1; lop3.b32 $0, b0, 0x80008000, a0, 0xf8; shl.b32 $1, b1, 7; }"""
_TO_B15 = """{ .reg .b32 a<2>, b<2>; .reg .b32 m; mov.b32 m, 0x3F003F00;
and.b32 a0, $1, 0x7fff7fff; and.b32 a1, $2, 0x7fff7fff; min.f16x2 a0, a0, m;
min.f16x2 a1, a1, m; mad.lo.u32 a0, a0, 2, 0x00800080; mad.lo.u32 a1, a1, 2, 0x00800080;
lop3.b32 b0, $1, 0x80008000, a0, 0xea; lop3.b32 b1, $2, 0x80008000, a1, 0xea;
prmt.b32 $0, b0, b1, 0x7531; }"""


def _idioms() -> list[PtxCase]:
    cases = [
        PtxCase(asm=_FROM_B15, constraints="=r,=r,r", inputs=("i8",), outputs=("f16",), pack=4),
        PtxCase(asm=_TO_B15, constraints="=r,r,r", inputs=("f16",), outputs=("i8",), pack=4),
        _one("prmt.b32 $0, $2, $3, 0x5140; prmt.b32 $1, $2, $3, 0x7362;", "rrr", "i8 i8", "i16"),
    ]
    # Each instance has two outputs of two bytes, from four bytes of each input.
    cases[-1] = PtxCase(
        asm=cases[-1].asm, constraints="=r,=r,r,r", inputs=("i8", "i8"), outputs=("i16",), pack=4
    )
    for op, letters, inputs, output in (
        ("slct.f32.f32 $0, $1, $2, $3;", "ffff", "f32 f32 f32", "f32"),
        ("mov.b64 $0, {$1, $2};", "lrr", "i32 i32", "i64"),
        ("{ .reg .b32 t; mov.b64 {_, t}, $1; mov.b32 $0, t; }", "rl", "i64", "i32"),
        ("sad.u16 $0, $1, $2, $1;", "hhh", "i16 i16", "i16"),
        ("cvt.rzi.f16.f16 $0, $1;", "hh", "f16", "f16"),
        ("cvt.f64.f32 $0, $1;", "df", "f32", "f64"),
        ("cvt.rn.f64.s64 $0, $1;", "dl", "i64", "f64"),
        ("cvt.rn.f16.f64 $0, $1;", "hd", "f64", "f16"),
        ("cvt.u16.u32 $0, $1;", "hr", "i32", "i16"),
        ("cvt.u64.u32 $0, $1;", "lr", "i32", "i64"),
        ("cvt.ftz.rni.s32.f32 $0, $1;", "rf", "f32", "i32"),
        ("fma.rn.bf16 $0, $1, $2, $1;", "hhh", "bf16 bf16", "bf16"),
        ("min.NaN.f16 $0, $1, $2;", "hhh", "f16 f16", "f16"),
        ("max.bf16 $0, $1, $2;", "hhh", "bf16 bf16", "bf16"),
        ("fma.rn.ftz.f32 $0, $1, 0f2F800000, 0f2F000000;", "ff", "f32", "f32"),
        ("add.f32 $0, $1, 1.5;", "ff", "f32", "f32"),
        ("add.f32 $0, $1, 0f3FC00000; // with a comment", "ff", "f32", "f32"),
        ("and.b32 $0, $1, 0b1010; or.b32 $0, $0, 017; xor.b32 $0, $0, -5;", "rr", "i32", "i32"),
        ("dp4a.s32.u32 $0, $1, $2, 7;", "rrr", "i32 i32", "i32"),
        ("cvt.rn.f32.u8 $0, $1;", "fr", "i32", "f32"),
    ):
        cases.append(_one(op, letters, inputs, output))
    return cases


CASES = [*_idioms(), *_integers(), *_other_sizes(), *_floats(), *_conversions(), *_programs()]
