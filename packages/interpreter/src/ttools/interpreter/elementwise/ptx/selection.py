"""`mov`, comparisons, selection, and instructions without effect in a single-threaded program."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ttools.interpreter.elementwise.ptx.floating import flush
from ttools.interpreter.elementwise.ptx.forms import Modifiers, count
from ttools.interpreter.elementwise.ptx.machine import Handler, Machine, RefusedPtxError
from ttools.interpreter.elementwise.ptx.syntax import Braces, Instruction, Pair
from ttools.interpreter.elementwise.ptx.types import TYPES, PtxType
from ttools.interpreter.elementwise.vector import Lanes, Vector

# ---- moves
_MOVED = frozenset(TYPES) - {"u16x2", "s16x2", "f32x2"}


def _move(machine: Machine, instruction: Instruction) -> None:
    """Translate `mov`, which copies bits, and packs or unpacks them if an operand is in braces."""
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.end()
    if type.name not in _MOVED:
        raise RefusedPtxError("")
    destination, source = count(instruction, 2)
    if isinstance(source, Braces) and isinstance(destination, Braces):
        raise RefusedPtxError("")
    value = machine.read(source, type)
    machine.write(destination, type, value)


# ---- comparisons
_INTEGER = {
    "eq": "eq",
    "ne": "ne",
    "lt": "slt",
    "le": "sle",
    "gt": "sgt",
    "ge": "sge",
    "lo": "ult",
    "ls": "ule",
    "hi": "ugt",
    "hs": "uge",
}
_ORDERS = ("eq", "ne", "lt", "le", "gt", "ge")
_FLOAT = {
    "num": "ord",
    "nan": "uno",
    **{name: f"o{name}" for name in _ORDERS},
    **{f"{name}u": f"u{name}" for name in _ORDERS},
}
_COMBINED: dict[str, Callable[[Vector, Vector], Vector]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _compared(modifiers: Modifiers, type: PtxType, a: Vector, b: Vector) -> Vector:
    if type.is_float:
        name = modifiers.choice(*_FLOAT)
        if name is None:
            raise RefusedPtxError("")
        if type.scalar != "double" and modifiers.flag("ftz"):
            a, b = flush(a), flush(b)
        return a.compare(_FLOAT[name], b)
    name = modifiers.choice(*_INTEGER)
    if name is None or type.name == "pred" or (type.name[0] == "b" and name not in ("eq", "ne")):
        raise RefusedPtxError("")
    predicate = _INTEGER[name]
    if not type.signed and predicate[0] == "s":
        predicate = f"u{predicate[1:]}"
    return a.compare(predicate, b)


def _combined(
    machine: Machine, instruction: Instruction, type: PtxType, modifiers: Modifiers
) -> tuple[Vector, Vector]:
    """Return a comparison and its complement, each combined with the predicate operand, if any."""
    combine = modifiers.choice(*_COMBINED)
    _, a, b, *more = count(instruction, 4 if combine else 3)
    holds = _compared(modifiers, type, machine.read(a, type), machine.read(b, type))
    modifiers.end()
    if combine is None:
        return holds, ~holds
    other = machine.read(more[0], TYPES["pred"])
    return _COMBINED[combine](holds, other), _COMBINED[combine](~holds, other)


def _set_predicate(machine: Machine, instruction: Instruction) -> None:
    """Translate `setp.cmp.type p|q, a, b`.

    For types of one part, q is the complement of p. For packed types, p is the result for the lower
    halves and q is the result for the upper halves.
    """
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    if type.bits == 8 or (type.parts > 1 and not type.is_float) or type.name == "f32x2":
        raise RefusedPtxError("")
    destination, pred = count(instruction, 3, 4)[0], TYPES["pred"]
    if type.parts == 1:
        first, second = _combined(machine, instruction, type, modifiers)
    else:
        if modifiers.choice(*_COMBINED):
            raise RefusedPtxError("")
        holds, _ = _combined(machine, instruction, type, modifiers)
        first, second = (_every_second(machine.lanes, holds, i) for i in (0, 1))
    if isinstance(destination, Pair):
        machine.write_bits(destination.first, first, pred)
        machine.write_bits(destination.second, second, pred)
    elif type.parts > 1:
        raise RefusedPtxError("")
    else:
        machine.write_bits(destination, first, pred)


def _every_second(lanes: Lanes, mask: Vector, start: int) -> Vector:
    chosen = range(start, mask.lanes.width, 2)
    return lanes.value(lanes.builder.shuffle(mask.text, chosen))


def _set(machine: Machine, instruction: Instruction) -> None:
    """Translate `set.cmp.dtype.stype d, a, b`, where true is all ones, or 1.0 as a float."""
    modifiers = Modifiers(instruction)
    target, source = modifiers.type(), modifiers.type()
    if target.name not in ("u32", "s32", "f32") or source.parts > 1 or source.bits == 8:
        raise RefusedPtxError("")
    holds, _ = _combined(machine, instruction, source, modifiers)
    if target.is_float:
        result = holds.choose(machine.lanes.constant(1.0, "float"), 0.0)
    else:
        result = holds.cast("sext", "i32")
    machine.write(instruction.operands[0], target, result)


_SELECTED = frozenset(
    f"{kind}{bits}" for kind in "busf" for bits in (16, 32, 64) if (kind, bits) != ("f", 16)
)


def _select(machine: Machine, instruction: Instruction) -> None:
    """Translate `selp.type d, a, b, p`."""
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.end()
    if type.name not in _SELECTED:
        raise RefusedPtxError("")
    destination, a, b, p = count(instruction, 4)
    chosen = machine.read(p, TYPES["pred"]).choose(machine.read(a, type), machine.read(b, type))
    machine.write(destination, type, chosen)


def _select_by_sign(machine: Machine, instruction: Instruction) -> None:
    """Translate `slct.dtype.{s32,f32} d, a, b, c`, which selects a if c >= 0 and otherwise b."""
    modifiers = Modifiers(instruction)
    type, tested = modifiers.type(), modifiers.type()
    flushes = tested.is_float and modifiers.flag("ftz")
    modifiers.end()
    if type.name not in _SELECTED or tested.name not in ("s32", "f32"):
        raise RefusedPtxError("")
    destination, a, b, c = count(instruction, 4)
    value = machine.read(c, tested)
    value = flush(value) if flushes else value
    holds = value.compare("oge" if tested.is_float else "sge", 0)
    machine.write(destination, type, holds.choose(machine.read(a, type), machine.read(b, type)))


# ---- instructions without effect
def _nothing(machine: Machine, instruction: Instruction) -> None:
    """Emit nothing.

    A program runs in a single thread, so barriers, hints and sleeps have no effect.
    """


def _fence(machine: Machine, instruction: Instruction) -> None:
    if instruction.modifiers[:1] != ("proxy",):
        machine.lanes.builder.do("fence seq_cst")


def _barrier(machine: Machine, instruction: Instruction) -> None:
    """Reject `bar.red`, which has a result; `bar.sync` has no effect."""
    if "red" in instruction.modifiers:
        raise RefusedPtxError("")


# ---- special registers
def _nanoseconds(lanes: Lanes) -> Vector:
    """Return the time of the system's monotonic clock."""
    builder = lanes.builder
    builder.declare("clock_gettime", "i32 (i32, ptr)")
    clock = 6 if sys.platform == "darwin" else 1
    name = builder.define(
        "ttools.nanoseconds",
        "define internal i64 @ttools.nanoseconds() noinline nounwind {\n"
        "  %time = alloca [2 x i64]\n"
        f"  %failed = call i32 @clock_gettime(i32 {clock}, ptr %time)\n"
        "  %seconds = load i64, ptr %time\n"
        "  %second = getelementptr i64, ptr %time, i64 1\n"
        "  %rest = load i64, ptr %second\n"
        "  %whole = mul i64 %seconds, 1000000000\n"
        "  %sum = add i64 %whole, %rest\n"
        "  ret i64 %sum\n}",
    )
    now = builder.call("i64", name)
    return lanes.value(builder.splat(now, lanes.width))


def _low(lanes: Lanes) -> Vector:
    return _nanoseconds(lanes).cast("trunc", "i32")


def _high(lanes: Lanes) -> Vector:
    return (_nanoseconds(lanes) >> 32).cast("trunc", "i32")


#: Special registers, which assembly may read without declaring them.
SPECIAL: dict[str, Callable[[Lanes], Vector]] = {
    "%globaltimer": _nanoseconds,
    "%globaltimer_lo": _low,
    "%globaltimer_hi": _high,
    "%clock64": _nanoseconds,
    "%clock": _low,
    "%clock_hi": _high,
    "%smid": lambda lanes: lanes.constant(0, "i32"),
    "%nsmid": lambda lanes: lanes.constant(1, "i32"),
    "WARP_SZ": lambda lanes: lanes.constant(32, "i32"),
}

#: Instructions that write no output. Assembly that consists only of these may have outputs, which
#: are then never written.
WITHOUT_RESULT: dict[str, Handler] = {
    **dict.fromkeys(("griddepcontrol", "nanosleep", "prefetch", "prefetchu"), _nothing),
    **dict.fromkeys(("bar", "barrier"), _barrier),
    **dict.fromkeys(("fence", "membar"), _fence),
}

SELECTION: dict[str, Handler] = {
    "mov": _move,
    "setp": _set_predicate,
    "set": _set,
    "selp": _select,
    "slct": _select_by_sign,
}
