"""PTX's integer and bit instructions.

The amount of a shift is clamped, and bit fields use the low 8 bits of position and length ("Integer
Arithmetic Instructions", "Logic and Shift Instructions" in the PTX ISA).
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.integer import count_zeros, high_product, quotient, remainder
from ttools.interpreter.elementwise.ptx.forms import Form, Modifiers, Rule, count, forms
from ttools.interpreter.elementwise.ptx.machine import Handler, Machine, RefusedPtxError
from ttools.interpreter.elementwise.ptx.syntax import Instruction, Number
from ttools.interpreter.elementwise.ptx.types import TYPES, PtxType, literal_bits
from ttools.interpreter.elementwise.vector import BITS, Vector

_SIZED = "u16 s16 u32 s32 u64 s64"
_PACKED = "u16x2 s16x2"
_LOGIC = "b16 b32 b64 pred"
_32_64 = "u32 s32 u64 s64"


def plain(function: Callable[..., Vector]) -> Rule:
    """Return a rule without modifiers."""
    return lambda modifiers, *values: function(*values)


def _typed(function: Callable[..., Vector]) -> Rule:
    """Return a rule that accepts no modifiers, for a function with the parameter `signed`."""
    return lambda modifiers, *values: function(*values, signed=modifiers.kind.signed)


# ---- arithmetic
def _saturable(name: str, function: Callable[..., Vector]) -> Rule:
    def rule(modifiers: Modifiers, a: Vector, b: Vector) -> Vector:
        if modifiers.kind.name == "s32" and modifiers.flag("sat"):
            return a.lanes.intrinsic(f"s{name}.sat", a, b)
        return function(a, b)

    return rule


def _extremum(name: str) -> Rule:
    def rule(modifiers: Modifiers, a: Vector, b: Vector) -> Vector:
        signed = modifiers.kind.signed
        value = a.lanes.intrinsic(f"{'s' if signed else 'u'}{name}", a, b)
        if signed and modifiers.flag("relu"):
            return value.maximum(0)
        return value

    return rule


def _sum_of_differences(a: Vector, b: Vector, c: Vector, *, signed: bool) -> Vector:
    return a.maximum(b, signed=signed) - a.minimum(b, signed=signed) + c


def _wide(value: Vector, type: PtxType) -> Vector:
    return value.cast("sext" if type.signed else "zext", f"i{2 * type.bits}")


def multiply(machine: Machine, instruction: Instruction) -> None:
    """Translate `mul` and `mad` of integers.

    The modifiers `lo` and `hi` select the lower or upper half of the product, `wide` all of it.
    """
    modifiers = Modifiers(instruction)
    half = modifiers.choice("lo", "hi", "wide")
    type = modifiers.type()
    modifiers.end()
    if type.name not in _SIZED.split() or half is None or (half == "wide" and type.bits == 64):
        raise RefusedPtxError("")
    target, *sources = count(instruction, 3 if instruction.opcode == "mul" else 4)
    a, b = (machine.read(operand, type) for operand in sources[:2])
    if half == "wide":
        type, value = (
            TYPES[f"{type.name[0]}{2 * type.bits}"],
            _wide(a, type) * _wide(b, type),
        )
    elif half == "hi":
        value = high_product(a, b, signed=type.signed)
    else:
        value = a * b
    if len(sources) > 2:
        value = value + machine.read(sources[2], type)
    machine.write(target, type, value)


def _dot_bytes(machine: Machine, instruction: Instruction) -> None:
    """Translate `dp4a.atype.btype d, a, b, c`: four products of bytes, added to c."""
    modifiers = Modifiers(instruction)
    types = modifiers.type(), modifiers.type()
    modifiers.end()
    if not {type.name for type in types} <= {"u32", "s32"}:
        raise RefusedPtxError("")
    target, *sources = count(instruction, 4)
    signed = any(type.signed for type in types)
    total = machine.read(sources[2], TYPES["s32" if signed else "u32"])
    a, b = (machine.read(o, t) for o, t in zip(sources[:2], types, strict=True))
    for i in range(4):
        shifts = [(v << (24 - 8 * i), t) for v, t in ((a, types[0]), (b, types[1]))]
        x, y = (v.arithmetic_shift(24) if t.signed else v >> 24 for v, t in shifts)
        total = total + x * y
    machine.write(target, TYPES["b32"], total)


# ---- shifts
def shift(opcode: str, value: Vector, amount: Vector) -> Vector:
    """Shift by an amount of 32 bits that is clamped to the value's size."""
    bits = BITS[value.scalar]
    inside = amount.compare("ult", bits)
    safe = amount.minimum(bits - 1, signed=False)
    sized = safe.cast("zext" if bits > 32 else "trunc", value.scalar)
    shifted = value.binary(opcode, sized)
    return shifted if opcode == "ashr" else inside.choose(shifted, 0)


def _shift_right(value: Vector, amount: Vector, *, signed: bool) -> Vector:
    return shift("ashr" if signed else "lshr", value, amount)


def _funnel(machine: Machine, instruction: Instruction) -> None:
    """Translate `shf.{l,r}.{wrap,clamp}.b32 d, a, b, c`, which shifts the 64 bits `b:a`."""
    modifiers = Modifiers(instruction)
    direction = modifiers.choice("l", "r")
    mode = modifiers.choice("wrap", "clamp")
    type = modifiers.type()
    modifiers.end()
    if direction is None or mode is None or type.name != "b32":
        raise RefusedPtxError("")
    target, *sources = count(instruction, 4)
    a, b, c = (machine.read(operand, type) for operand in sources)
    both = (b.cast("zext", "i64") << 32) | a.cast("zext", "i64")
    amount = c & 31 if mode == "wrap" else c.minimum(32, signed=False)
    amount = amount.cast("zext", "i64")
    if direction == "l":
        result = both.binary("shl", amount) >> 32
    else:
        result = both.binary("lshr", amount)
    machine.write(target, type, result.cast("trunc", "i32"))


# ---- bits
def _lookup(machine: Machine, instruction: Instruction) -> None:
    """Translate `lop3.b32 d, a, b, c, immLut`: any function of three bits, by its truth table."""
    if instruction.modifiers != ("b32",):
        raise RefusedPtxError("")
    type = TYPES["b32"]
    target, *sources, table = count(instruction, 5)
    bits = literal_bits(table.text, type) if isinstance(table, Number) else None
    if bits is None or bits > 0xFF:
        raise RefusedPtxError("its table is not a literal of 8 bits")
    a, b, c = (machine.read(operand, type) for operand in sources)
    result = a.coerce(0)
    for index in range(8):
        if bits >> index & 1:
            # The operands a, b and c correspond to the tables 0xF0, 0xCC and 0xAA, so a is the
            # highest bit of the index.
            terms = [v if index >> bit & 1 else ~v for v, bit in ((a, 2), (b, 1), (c, 0))]
            result = result | (terms[0] & terms[1] & terms[2])
    machine.write(target, type, result)


#: Modes of `prmt`. For each value of the low two bits of c, the indices of the four chosen bytes,
#: beginning with the lowest byte of the result.
_PERMUTATIONS = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _permute(modifiers: Modifiers, a: Vector, b: Vector, c: Vector) -> Vector:
    """Choose bytes of `b:a` by the four nibbles of c.

    If the highest bit of a nibble is set, the sign of the chosen byte fills the result's byte.
    """
    mode = modifiers.choice(*_PERMUTATIONS)
    if mode is not None:
        choices = [
            sum(byte << (4 * i) for i, byte in enumerate(row)) for row in _PERMUTATIONS[mode]
        ]
        low = c & 3
        c = low.coerce(choices[3])
        for value in range(3):
            c = low.compare("eq", value).choose(low.coerce(choices[value]), c)
    both = (b.cast("zext", "i64") << 32) | a.cast("zext", "i64")
    result = a.coerce(0)
    for i in range(4):
        nibble = c >> (4 * i)
        amount = ((nibble & 7) << 3).cast("zext", "i64")
        byte = both.binary("lshr", amount).cast("trunc", "i8")
        sign = byte.arithmetic_shift(7)
        byte = (nibble & 8).compare("ne", 0).choose(sign, byte)
        wide = byte.cast("zext", "i32")
        result = result | (wide << (8 * i) if i else wide)
    return result


def _mask(length: Vector, scalar: str) -> Vector:
    """Return an integer whose `length` low bits are set; `length` may be any i32."""
    ones = length.lanes.constant(-1, scalar)
    return ~shift("shl", ones, length)


def _field(scalar: str, position: Vector, length: Vector) -> tuple[Vector, Vector]:
    """Return position and length of a bit field, limited as on a GPU.

    PTX restricts both to 0..255. For larger numbers, a GPU uses the low 8 bits for fields of 32
    bits, and all bits for fields of 64 bits.
    """
    if scalar == "i64":
        bound = 255
        return position.minimum(bound, signed=False), length.minimum(bound, signed=False)
    return position & 0xFF, length & 0xFF


def _extract(modifiers: Modifiers, a: Vector, position: Vector, length: Vector) -> Vector:
    """Translate `bfe`, which extracts a bit field.

    If the type is signed, the rest of the result is filled with the highest bit of the field, or
    with the highest bit of the value if the field extends beyond it.
    """
    position, length = _field(a.scalar, position, length)
    field = shift("lshr", a, position) & _mask(length, a.scalar)
    if not modifiers.kind.signed:
        return field
    bits = BITS[a.scalar]
    last = (position + length - 1).minimum(bits - 1, signed=True).maximum(0)
    negative = (shift("lshr", a, last) & 1).compare("ne", 0) & length.compare("ne", 0)
    # Bits of the field beyond the value's end are filled, too.
    inside = length.minimum((position.coerce(bits) - position).maximum(0))
    filled = field | ~_mask(inside, a.scalar)
    return negative.choose(filled, field)


def _insert(modifiers: Modifiers, a: Vector, b: Vector, position: Vector, length: Vector) -> Vector:
    position, length = _field(a.scalar, position, length)
    mask = shift("shl", _mask(length, a.scalar), position)
    return (shift("shl", a, position) & mask) | (b & ~mask)


def _find_highest(modifiers: Modifiers, a: Vector) -> Vector:
    """Translate `bfind`: the index of the highest bit that is not a sign bit; -1 if none."""
    value = a.compare("slt", 0).choose(~a, a) if modifiers.kind.signed else a
    bit = value.coerce(BITS[a.scalar] - 1) - count_zeros("ctlz", value)
    if modifiers.flag("shiftamt"):
        none = bit.compare("eq", -1)
        bit = none.choose(bit, bit.coerce(BITS[a.scalar] - 1) - bit)
    return _as_u32(bit)


def _as_u32(value: Vector) -> Vector:
    return value.cast("trunc", "i32")


def _intrinsic(name: str) -> Callable[[Vector], Vector]:
    return lambda value: value.lanes.intrinsic(name, value)


def _is_zero(value: Vector) -> Vector:
    return value.compare("eq", 0).cast("zext", value.scalar)


INTEGER_FORMS: dict[str, Form] = {
    **forms("add", f"{_SIZED} {_PACKED}", _saturable("add", lambda a, b: a + b), "", ""),
    **forms("sub", _SIZED, _saturable("sub", lambda a, b: a - b), "", ""),
    **forms("div", _SIZED, _typed(quotient), "", ""),
    **forms("rem", _SIZED, _typed(remainder), "", ""),
    **forms("min", f"{_SIZED} {_PACKED}", _extremum("min"), "", ""),
    **forms("max", f"{_SIZED} {_PACKED}", _extremum("max"), "", ""),
    **forms("sad", _SIZED, _typed(_sum_of_differences), "", "", ""),
    **forms("abs", "s16 s32 s64", plain(lambda a: a.maximum(-a)), ""),
    **forms("neg", "s16 s32 s64", plain(lambda a: -a), ""),
    **forms("and", _LOGIC, plain(lambda a, b: a & b), "", ""),
    **forms("or", _LOGIC, plain(lambda a, b: a | b), "", ""),
    **forms("xor", _LOGIC, plain(lambda a, b: a ^ b), "", ""),
    **forms("not", _LOGIC, plain(lambda a: ~a), ""),
    **forms("cnot", "b16 b32 b64", plain(_is_zero), ""),
    **forms("shl", "b16 b32 b64", plain(lambda a, n: shift("shl", a, n)), "", "u32"),
    **forms("shr", f"b16 b32 b64 {_SIZED}", _typed(_shift_right), "", "u32"),
    **forms("prmt", "b32", _permute, "", "", ""),
    **forms("bfe", _32_64, _extract, "", "u32", "u32"),
    **forms("bfi", "b32 b64", _insert, "", "", "u32", "u32"),
    **forms("bfind", _32_64, _find_highest, "", result="u32"),
    **forms("popc", "b32 b64", plain(lambda a: _as_u32(_intrinsic("ctpop")(a))), "", result="u32"),
    **forms("clz", "b32 b64", plain(lambda a: _as_u32(count_zeros("ctlz", a))), "", result="u32"),
    **forms("brev", "b32 b64", plain(_intrinsic("bitreverse")), ""),
}

INTEGER_HANDLERS: dict[str, Handler] = {
    "dp4a": _dot_bytes,
    "shf": _funnel,
    "lop3": _lookup,
}
