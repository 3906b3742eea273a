"""Operations with an explicit rounding mode (`__nv_fadd_rz`, `__nv_int2float_ru`, …).

Each of them is compiled to a function that sets the CPU's rounding mode, computes, and restores the
mode. The function must not be inlined, because LLVM assumes rounding to nearest in the code around
the call.
"""

from __future__ import annotations

from ttools.interpreter.elementwise.vector import Vector

#: Arguments of `llvm.set.rounding`, by the suffix of a libdevice name.
MODES = {"rz": 0, "rn": 1, "ru": 2, "rd": 3}

_CONSTRAINED = "llvm.experimental.constrained"


def directed(opcode: str, mode: str, *arguments: Vector, result: str | None = None) -> Vector:
    """Emit one LLVM operation whose result is rounded in a given mode.

    Args:
        opcode: `fadd`, `fsub`, `fmul`, `fdiv`, `sqrt`, `fma`, `fptrunc`, `sitofp` or `uitofp`.
        mode: A key of `MODES`.
        result: The LLVM type of the result's elements; None for that of the first argument.
    """
    lanes = arguments[0].lanes
    builder = lanes.builder
    scalar = result or arguments[0].scalar
    out = lanes.type(scalar)
    kinds = [arguments[0].scalar] if result is None else [scalar, arguments[0].scalar]
    suffix = ".".join(lanes.suffix(kind) for kind in kinds)
    name = f"ttools.{opcode}.{mode}.{suffix}"
    passed = ", ".join(f"{a.type} %a{i}" for i, a in enumerate(arguments))
    if name not in builder.definitions:
        types = ", ".join(a.type for a in arguments)
        full = f"{_CONSTRAINED}.{opcode}.{suffix}"
        builder.declare(full, f"{out} ({types}, metadata, metadata)")
        builder.declare("llvm.set.rounding", "void (i32)")
        how = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'
        builder.define(
            name,
            f"define internal {out} @{name}({passed}) noinline nounwind strictfp {{\n"
            f"  call void @llvm.set.rounding(i32 {MODES[mode]}) strictfp\n"
            f"  %r = call {out} @{full}({passed}, {how}) strictfp\n"
            f"  call void @llvm.set.rounding(i32 {MODES['rn']}) strictfp\n"
            f"  ret {out} %r\n}}",
        )
    return lanes.call(scalar, f"@{name}", *arguments)
